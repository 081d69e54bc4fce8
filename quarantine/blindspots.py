"""What a cycle could not see, as sentences for people."""

from __future__ import annotations

from collections.abc import Iterator

from quarantine.core.model import Failed
from quarantine.core.snapshot import Snapshot


def blind_spots(snapshot: Snapshot) -> tuple[str, ...]:
    """One sentence for each reason why something was not answered."""
    return (*_unanswered(snapshot), *_unseen(snapshot))


def _unseen(snapshot: Snapshot) -> Iterator[str]:
    """What of the cases' machines could not be asked: nothing is done that would need to know it."""
    looked = {
        "what runs on the cases' machines": snapshot.workloads,
        "how far the cases' procedures have come": snapshot.runs,
        "which GPUs the cases' machines have": snapshot.hardware,
    }
    for what, answer in looked.items():
        if isinstance(answer, Failed):
            yield f"{what} is not known: {answer.detail.rstrip('.')}"


def _unanswered(snapshot: Snapshot) -> tuple[str, ...]:
    found: dict[str, list[str]] = {}
    for name, answers in snapshot.answers.items():
        asked = (*answers.trigger.values(), *answers.recovery.values(), *answers.coverage.values())
        failed = next((answer for answer in asked if isinstance(answer, Failed)), None)
        if failed is not None:
            found.setdefault(failed.detail.rstrip("."), []).append(name)
    return tuple(
        f"{'policy' if len(names) == 1 else 'policies'} {', '.join(names)} got no answer: {detail}"
        for detail, names in found.items()
    )
