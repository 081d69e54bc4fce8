"""Who is woken, who hears that the controller lives, and whether charts can be drawn. Nobody is told anything."""

from __future__ import annotations

from collections.abc import Iterator

from quarantine import app, outward
from quarantine.charts import require
from quarantine.core.errors import UsageError
from quarantine.doctor.finding import Finding, fault, good, note, warning
from quarantine.doctor.patient import Patient


def check(patient: Patient) -> Iterator[Finding]:
    """Pagers and heartbeat, as far as their settings tell."""
    settings = patient.settings
    alone = warning if patient.enforces else note
    try:
        pagers = outward.pagers(settings, app.CLOCK)
        for pager in pagers:
            yield good(f"{pager.name} is configured; no alarm was sent to try it")
        if not pagers:
            yield alone(
                "nobody is woken by an alarm", "set pagerduty.routing_key_file or alertmanager.urls, see docs/pager.md"
            )
    except UsageError as error:
        yield fault(str(error))
    try:
        heart = app.heart(settings)
    except UsageError as error:
        yield fault(str(error))
        return
    if heart is None:
        yield alone("nobody hears when the controller stops", "set heartbeat.url_file, or alert on its metrics")
        return
    with heart:
        yield good("a heartbeat is configured; none was sent to try it")


def check_charts(_: Patient) -> Iterator[Finding]:
    """Whether the library that draws is there."""
    try:
        require()
    except UsageError as error:
        yield note(f"tickets and messages go without charts: {error}")
    else:
        yield good("charts can be drawn")
