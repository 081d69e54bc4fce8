"""The settings, which were sound, and the files of policies, signals and fleet."""

from __future__ import annotations

from collections.abc import Iterator

from quarantine.core.model import Mode
from quarantine.doctor.finding import Finding, fault, good, note, warning
from quarantine.doctor.patient import Patient

_SHOWN = 20  # faults of files
_ONE = {"files": "file", "policies": "policy", "signals": "signal", "procedures": "procedure", "fleets": "fleet"}


def check(patient: Patient) -> Iterator[Finding]:
    """What `quarantine policy check` says of the files, and what the modes come to."""
    settings, result = patient.settings, patient.policies()
    where = ", ".join(map(str, settings.policies))
    yield good(f"the settings are sound: cluster {settings.cluster}, mode {settings.mode}, policies from {where}")
    for found in result.faults[:_SHOWN]:
        yield fault(f"{found.place}: {found.message}", found.hint or "correct the file")
    if len(result.faults) > _SHOWN:
        yield fault(f"{len(result.faults) - _SHOWN} more faults in the policy files", "run `quarantine policy check`")
    if result.rules is None:
        return
    policies = result.rules.policies
    counts = ", ".join(f"{count} {kind if count != 1 else _ONE[kind]}" for kind, count in result.counts.items())
    if not policies:
        yield warning(f"there is no policy in {where}, so nothing is judged", "add one, see docs/policies")
    elif not result.faults:
        yield good(f"the policy files have no fault: {counts}")
    acting = [policy.name for policy in policies if policy.spec.mode is Mode.ENFORCE]
    if patient.enforces and acting:
        yield note(f"policies that act: {', '.join(acting)}")
    elif patient.enforces and policies:
        yield warning(
            "the settings say mode enforce, and no policy does: nothing is acted on",
            "write `mode: enforce` into the policies that are to act",
        )
    elif acting:
        yield note(f"the settings say mode observe, so these policies only observe too: {', '.join(acting)}")
