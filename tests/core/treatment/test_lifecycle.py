"""The life of a case: the table of phases, walked whole, and what holds whatever happens to a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import explain
from quarantine.core.case import Case, Effect, HeldBy, Phase, Purpose, RunOutcome, Step
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.model import Machine, Mode, Verdict
from quarantine.core.state import evolve, fold
from quarantine.core.treatment.overdue import overdue_at
from quarantine.core.workload import Class
from tests.core.treatment.floor import pod, rank
from tests.core.treatment.life import ON_PROOF, REBOOT, REPLACE, REPORT, RESET, Life, asked, begun, law
from tests.core.world import FAILED, MINUTE, NOW, rules

DOC = Path(__file__).parents[3] / "docs" / "lifecycle.md"
HOUR = timedelta(hours=1)
ENDED = (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED)


def _decision(phase: Phase, minute: int) -> Decision:
    made = Decision(NOW + minute * MINUTE, Kind.DECIDED, Action.PROVE, "r", "t", case="q-1", phase=phase)
    return replace(made, node="node-3", machine=Machine("uid-node-3"), pool="gpu")


# --- The table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), list(product(Phase, Phase)), ids=lambda phase: phase.value)
def test_every_move_is_made_or_refused_by_the_table(before: Phase, after: Phase) -> None:
    state = evolve(State(), _decision(before, 0))
    if before is after:
        assert evolve(state, _decision(after, 1)).cases["q-1"].phase_since == NOW, "a phase begins once"
    elif after in TRANSITIONS[before].exits:
        case = evolve(state, _decision(after, 1)).cases["q-1"]
        assert (case.phase, case.phase_since) == (after, NOW + MINUTE)
        assert case.open is (after not in ENDED)
    else:
        with pytest.raises(ValueError, match=f"does not go from {before} to {after}"):
            evolve(state, _decision(after, 1))


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDED])
def test_in_every_phase_somebody_is_told_when_its_deadline_passes(phase: Phase) -> None:
    # While a person's suspicion waits, the installation observes; else it would be acted on.
    life = Life(rules(), hot=False, mode=Mode.OBSERVE if phase is Phase.SUSPECTED else Mode.ENFORCE)
    life.state = evolve(State(), _decision(phase, 0))
    case = life.case
    life.state = replace(life.state, cases={case.id: replace(case, by_person=True, cordoned_by_us=True)})
    at = overdue_at(life.case, life.law)
    deadline = TRANSITIONS[phase].deadline
    assert at is not None
    assert deadline is not None
    assert at == NOW + deadline
    life.at = at - MINUTE
    life.plan()
    assert HeldBy.OVERDUE not in life.held
    life.at = at
    made = life.plan()
    assert HeldBy.OVERDUE in life.held
    assert any(TRANSITIONS[phase].overdue in d.reason for d in made if d.held_by is HeldBy.OVERDUE)


def test_a_phase_is_not_overdue_while_it_lasts_as_long_as_its_policy_says() -> None:
    life = Life(law(ladder=[RESET], release={"when": "on-proof", "probation": "6d"}))
    life.cycles(2)
    life.hot = False
    life.ended()
    life.cycle()
    assert life.phase() is Phase.PROBATION
    life.wait(timedelta(days=5))
    assert life.held == set()
    life.seen = False
    life.wait(timedelta(days=2))
    assert life.held == {HeldBy.OVERDUE}
    late = Life(law(ladder=[{**REPLACE, "after": "10d"}]))
    late.cycle()
    late.wait(timedelta(days=8))
    assert late.held == set()


def _span(deadline: timedelta | None) -> str:
    if deadline is None:
        return ""
    return f"{deadline.days} day{'' if deadline.days == 1 else 's'}"


def test_the_documented_table_is_the_one_in_force() -> None:
    rows = [
        f"| `{phase}` | {', '.join(f'`{p}`' for p in Phase if p in rule.exits) or 'it has ended'} "
        f"| {_span(rule.deadline)} | {rule.overdue} |"
        for phase, rule in TRANSITIONS.items()
    ]
    text = DOC.read_text(encoding="utf-8")
    documented = [line for line in text.splitlines() if line.startswith("| `")]
    assert documented[: len(rows)] == rows, "\n".join(rows)


# --- The gate ---------------------------------------------------------------------------------------------------------


def gated() -> Life:
    """A machine that joined the pool a moment ago."""
    budget = {"quarantined": "50%", "unavailable": "60%", "perHour": "50%"}
    pool = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget, "gate": {"burnIn": "burn-in"}}
    law_ = replace(law(), fleet=rules(pools=[pool]).fleet)
    life = Life(law_, hot=False)
    life.nodes["node-3"] = replace(life.nodes["node-3"], created_at=NOW - MINUTE)
    return life


def test_a_new_machine_proves_itself_by_its_burn_in_alone() -> None:
    life = gated()
    life.cycles(2)
    assert (life.phase(), begun(life.trail)) == (Phase.PROBATION, ["burn-in-1"])
    life.ended()
    life.cycles(2)
    assert life.phase() is Phase.RELEASED
    assert life.cycles(90) == [], "nor is it new again"


def test_a_new_machine_that_fails_its_burn_in_stays_out_and_people_are_told() -> None:
    life = gated()
    life.cycles(2)
    life.ended(RunOutcome.FAILED)
    life.cycle()
    assert (life.phase(), life.held) == (Phase.QUARANTINED, {HeldBy.PROCEDURE})
    assert life.cycles(60) == []
    life.cycle(asked(RequestKind.REPAIRED))
    life.ended()
    life.cycles(3)
    assert (life.phase(), life.held) == (Phase.RELEASED, set())


# --- What people read -------------------------------------------------------------------------------------------------


def test_what_is_done_about_a_machine_is_told_in_words() -> None:
    life = Life(law(ladder=[RESET, REBOOT], drain="now", evidence="bug-report"), pods=(pod("web", "node-3"),))
    life.cycles(2)
    assert "the taking of evidence by bug-report runs until 2026-11-29 13:01 UTC" in explain.standing(
        "node-3", life.state
    )
    life.ended()
    life.cycle()
    said = explain.standing("node-3", life.state)
    assert "is being drained" in said
    assert "1 pod asked to leave so far" in said
    life.pods = ()
    life.cycle()
    said = explain.standing("node-3", life.state)
    assert "is being repaired" in said
    assert "tried: reset (2026-11-29 12:03 UTC)" in said
    assert "the taking of evidence by bug-report succeeded" in said
    told = [line for sentence in explain.story(enumerate(life.trail)) for line in sentence.evidence]
    assert any(line.startswith("pods: inference/web (uid uid-web)") for line in told)
    assert any(line.startswith("procedure gpu-reset as q-") for line in told)
    assert "step 1 of its policy's ladder: reset" in told


# --- Whatever happens -------------------------------------------------------------------------------------------------

KINDS = [kind for kind in RequestKind if kind not in (RequestKind.UNKNOWN, RequestKind.ADOPT)]
ladders = st.sampled_from(
    [
        [],
        [RESET],
        [RESET, REBOOT, REPLACE],
        [REBOOT, REPORT],
        [REPORT, RESET],
        [REPLACE],
        [RESET, {**REPLACE, "after": "2h"}],
    ]
)
responses = st.fixed_dictionaries(
    {
        "ladder": ladders,
        "drain": st.sampled_from(["never", "now", {"when": "when-idle", "deadline": "30m", "then": "now"}]),
        "release": st.sampled_from([ON_PROOF, {**ON_PROOF, "burnIn": "burn-in"}, {"when": "by-hand"}]),
        "notify": st.booleans(),
    },
    optional={"evidence": st.just("bug-report")},
)
loads = st.sampled_from([(), (), (), (pod("web", "node-3"),), (rank("r-0", "node-3", gang=""),)])


def mostly(usual: object, *others: object) -> st.SearchStrategy[object]:
    """The usual in four of five cases."""
    return st.integers(0, 4).flatmap(lambda n: st.sampled_from(others) if n == 4 else st.just(usual))


events = st.fixed_dictionaries(
    {
        "found": st.sampled_from(["hot", "hot", "nothing", "nothing", "cool"]),
        "seen": mostly(True, False),
        "pods": loads,
        "pods_known": mostly(True, None, False),
        "outcome": st.sampled_from(
            [None, RunOutcome.RUNNING, RunOutcome.SUCCEEDED, RunOutcome.SUCCEEDED, RunOutcome.FAILED]
        ),
        "blind": mostly(False, True),
        "ask": mostly(None, None, *KINDS),
        "mode": mostly(Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE),
        "minutes": st.sampled_from([1, 1, 1, 6, 31, 61, 300]),
        "done": mostly(True, False),
    }
)


def _set(life: Life, event: dict[str, object]) -> None:
    for name in ("seen", "pods", "pods_known", "mode"):
        setattr(life, name, event[name])
    life.hot, life.cool = event["found"] == "hot", event["found"] == "cool"
    if event["blind"]:
        life.runs = FAILED
        return
    life.runs = {}
    outcome = event["outcome"]
    case = life.state.open_case_of("node-3")
    if isinstance(outcome, RunOutcome) and case is not None and case.run is not None:
        life.ended(outcome)


def _asked(life: Life, event: dict[str, object], number: int) -> Iterator[object]:
    kind = event["ask"]
    if isinstance(kind, RequestKind):
        until = life.at + HOUR if kind in (RequestKind.WAIVE, RequestKind.PAUSE, RequestKind.MAINTAIN) else None
        yield replace(asked(kind, number), scope="all" if kind is not RequestKind.MAINTAIN else "node-3", until=until)


def _check(life: Life, before: State, made: list[Decision]) -> None:
    """Each decision against the state that it was taken in."""
    state = before
    for decision in made:
        case = state.cases.get(decision.case or "")
        if decision.run is not None and Effect.RUN in decision.effects:
            assert case is not None
            assert case.run is None, "one at a time"
            assert decision.run.name not in {run.name for run in case.runs}, "none twice"
            assert life.mode is Mode.ENFORCE
        if decision.rung is not None and decision.rung.step is not Step.REPORT:
            assert life.pods_known is True, "nothing under pods that nobody knows of"
            harmed = [p for p in life.pods if decision.rung.step is not Step.REPLACE or p.kind is Class.TRAINING]
            assert not harmed
        if decision.phase is Phase.RELEASED and decision.request is None:
            assert case is not None
            _check_release(life, case)
        if decision.request is None and life.mode is Mode.OBSERVE:
            assert set(decision.effects) <= {Effect.PHASE, Effect.UNMARK, Effect.CONDITION, Effect.CLOSE}
        state = evolve(state, decision)


def _check_release(life: Life, case: Case) -> None:
    assert case.phase is Phase.PROBATION
    assert life.mode is Mode.ENFORCE
    assert life.seen, "silence proves nothing"
    assert not life.hot
    assert not case.told_provider or case.renewed_at is not None, "once told, no metric closes it"
    remedied = any(
        run.purpose in (Purpose.RESET, Purpose.REBOOT) and run.outcome is RunOutcome.SUCCEEDED for run in case.runs
    )
    proven = all(finding.verdict is Verdict.GOOD for finding in case.findings)
    assert remedied or proven or case.renewed_at is not None, "a remedy, or evidence under load"
    release = life.law.policies[0].spec.response.release
    if release.burn_in is not None:
        last = case.last_run(Purpose.BURN_IN)
        assert last is not None
        assert last.outcome is RunOutcome.SUCCEEDED
    assert release.when == "on-proof"
    assert not case.by_person


@given(response=responses, history=st.lists(events, min_size=3, max_size=14))
@settings(max_examples=120, deadline=None)
def test_whatever_happens_nothing_is_released_or_begun_that_must_not_be(
    response: dict[str, object], history: list[dict[str, object]]
) -> None:
    life = Life(law(**response))
    life.plan()
    for number, event in enumerate(history):
        _set(life, event)
        before = life.state
        made = life.plan(*_asked(life, event, number))  # type: ignore[arg-type]
        _check(life, before, made)
        if event["done"]:
            life.carry_out()
        life.at += int(str(event["minutes"])) * MINUTE
    assert fold(State(), life.trail) == life.state, "a restart forgets nothing"


@given(response=responses, history=st.lists(events, min_size=2, max_size=8))
@settings(max_examples=60, deadline=None)
def test_left_alone_every_case_ends_or_somebody_is_told_and_only_deadlines_decide(
    response: dict[str, object], history: list[dict[str, object]]
) -> None:
    life = Life(law(**response))
    life.cycle()
    for number, event in enumerate(history):
        _set(life, event)
        life.plan(*_asked(life, event, number))  # type: ignore[arg-type]
        life.carry_out()
        life.at += int(str(event["minutes"])) * MINUTE
    life.mode = Mode.ENFORCE
    for _ in range(60):
        for _ in range(8):  # what is carried out may be followed up at once
            if not life.cycle():
                break
        ahead = sorted(at for at in deadlines(life.state, life.law) if at >= life.at)
        if not ahead:
            break
        if ahead[0] - life.at > 2 * MINUTE:
            life.at += (ahead[0] - life.at) / 2
            assert life.plan() == [], f"nothing is due before {ahead[0]}, and it is {life.at}"
        life.at = ahead[0]
    for case in (case for case in life.state.cases.values() if case.open):
        told = {hold.held_by for key, hold in life.state.holds.items() if case.id in key.split("/")}
        suspected = case.phase is Phase.SUSPECTED
        assert told or suspected, f"{case.phase} since {case.phase_since}, and nobody was told by {life.at}"
