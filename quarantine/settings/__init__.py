"""The settings of an installation: command line over environment over `quarantine.yaml` over defaults."""

from quarantine.settings.models import Cycle, Kubernetes, Log, Prometheus, Settings, Slack, Tickets, shipped_policies
from quarantine.settings.reading import DEFAULT_FILE, load
from quarantine.settings.reference import reference

__all__ = [
    "DEFAULT_FILE",
    "Cycle",
    "Kubernetes",
    "Log",
    "Prometheus",
    "Settings",
    "Slack",
    "Tickets",
    "load",
    "reference",
    "shipped_policies",
]
