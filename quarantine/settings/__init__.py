"""The settings of an installation: command line over environment over `quarantine.yaml` over defaults."""

from quarantine.settings.models import (
    Cycle,
    Kubernetes,
    Log,
    Metrics,
    Prometheus,
    Settings,
    Slack,
    shipped_policies,
)
from quarantine.settings.reading import DEFAULT_FILE, load
from quarantine.settings.reference import reference
from quarantine.settings.tickets import Target, Tickets
from quarantine.settings.values import listen_address

__all__ = [
    "DEFAULT_FILE",
    "Cycle",
    "Kubernetes",
    "Log",
    "Metrics",
    "Prometheus",
    "Settings",
    "Slack",
    "Target",
    "Tickets",
    "listen_address",
    "load",
    "reference",
    "shipped_policies",
]
