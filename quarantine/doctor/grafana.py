"""Whether Grafana answers, and takes the token. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from quarantine import app, outward
from quarantine.core.errors import AnnotatorRefused
from quarantine.doctor.finding import Finding, fault, good, note
from quarantine.doctor.patient import Patient


def check(patient: Patient) -> Iterator[Finding]:
    """Look for an annotation, as the controller does before it makes one. Raises as `Grafana.check`, and UsageError."""
    annotator = outward.annotator(patient.settings, app.CLOCK)
    if annotator is None:
        yield note("charts in Grafana are not annotated", "to have them show what was out, see docs/grafana.md")
        return
    try:
        annotator.check()
    except AnnotatorRefused as error:
        yield fault(str(error), "look at the token: of a service account with the role Editor, see docs/grafana.md")
        return
    yield good("Grafana takes the token; no annotation was made to try whether it may")
