"""No secret of the settings leaves: adapters see to it, and this looks at every sentence once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from quarantine.doctor.finding import Finding, warning
from quarantine.doctor.patient import Patient
from quarantine.settings import Settings
from quarantine.settings.secrets import redactor, shown


def mask_of(settings: Settings) -> Callable[[Finding], Finding]:
    """What replaces the secrets of these settings by `***`."""
    hide = redactor(settings).text

    def mask(finding: Finding) -> Finding:
        return replace(finding, sentence=hide(finding.sentence), advice=hide(finding.advice))

    return mask


def check(patient: Patient) -> Iterator[Finding]:
    """Secrets that cannot be told from other words, so that the log may have them."""
    for called, why in shown(patient.settings):
        yield warning(
            f"{called} is {why}: it is not hidden where it is told", "take a long one that is drawn at random"
        )
