"""May the policies of these files act? For the check of a pull request that sets one to enforce."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from quarantine.cli.trust import words
from quarantine.cli.trust.reading import Installation, Read
from quarantine.core.model import Mode
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.record.trust import Standing, Step
from quarantine.core.record.trust.observed import finds_the_same, is_within


@dataclass(frozen=True, slots=True)
class Ruling:
    """On a policy that says enforce. `reason`: why it may, or may not; a sentence without its end."""

    standing: Standing
    reason: str
    objected: bool
    allowed: bool  # by its name, whatever is said against it

    @property
    def refused(self) -> bool:
        """Whether the check fails for it."""
        return self.objected and not self.allowed


def check(read: Read, rules: Rules, allow: Collection[str]) -> tuple[Ruling, ...]:
    """One for each policy of the files that says enforce, by name."""
    acting = [policy for policy in rules.policies if policy.spec.mode is Mode.ENFORCE]
    made = (_ruling(one, read, rules, allow) for one in read.as_written(acting))
    return tuple(sorted(made, key=lambda one: one.standing.policy.name))


def _ruling(one: Standing, read: Read, rules: Rules, allow: Collection[str]) -> Ruling:
    known = read.at.rules.policy(one.policy.name)
    why = next(_against(one, known, read.at, rules), "")
    if not why and known is not None and known.spec.mode is Mode.ENFORCE:
        within = is_within(one.policy.spec.node_selector, known.spec.node_selector)
        if within and finds_the_same(one.policy.spec, known.spec):
            return Ruling(one, "it enforces there already", objected=False, allowed=False)
    why = why or next(_not_yet(one), "")
    if not why:
        return Ruling(one, words.nothing_against(one), objected=False, allowed=False)
    return Ruling(one, why, objected=True, allowed=one.policy.name in allow)


def _against(one: Standing, known: LoadedPolicy | None, at: Installation, rules: Rules) -> Iterator[str]:
    """What was observed is not what these files have."""
    if known is None:
        yield f"cluster {at.cluster} has no policy of this name in force, so it has never observed"
    elif not finds_the_same(one.policy.spec, known.spec):
        yield "it finds something else than the version in force, which has never observed so"
    elif rules.signals.get(one.policy.measures) != at.rules.signals.get(one.policy.measures):
        yield f"signal {one.policy.measures} is measured in another way than in the version in force"


def _not_yet(one: Standing) -> Iterator[str]:
    if one.step is Step.OBSERVE:
        absent = "" if not one.unproven else ", and for the rest nothing shows that a controller was at work"
        yield f"where it would act, it has observed for {words.observed_of(one)} with answers{absent}"
    if one.found.refuted:
        yield words.judged_false(one)
    if one.found.waits:
        waits = "waits" if one.found.waits == 1 else "wait"
        yield f"{words.counted(one.found.waits, 'finding')} of it {waits} for people's word"


def advice(rulings: Collection[Ruling]) -> str:
    """What to do about those that are refused."""
    names = " ".join(f"--allow {one.standing.policy.name}" for one in rulings if one.refused)
    return (
        "let it observe in that form (a changed one as a copy under another name), and say of what it finds what it "
        f"was; in urgency: {names}"
    )
