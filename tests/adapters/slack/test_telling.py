"""What people are told out of the ledger: as the command line tells it, the newest part of long stories."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.slack.telling import (
    MOST_CASES,
    MOST_SENTENCES,
    answers,
    evidence_of,
    status_of,
    story_of,
    why_over,
)
from quarantine.core.case import Case, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Dismissal, Hold, Kind, RequestKind, State, Word, WordKind
from quarantine.core.planner import plan
from quarantine.core.rulefiles import FILE
from quarantine.ports import LedgerView, TrailRow
from tests.core.world import NOW, ask, fleet, hot, policy, quarantined, rules, snapshot

HOUR = timedelta(hours=1)


def trail(*nodes: str) -> list[TrailRow]:
    made = plan(snapshot(fleet(), *(hot(name) for name in nodes)), rules())
    return [TrailRow(seq, decision, "h") for seq, decision in enumerate(made.decisions, 1)]


def only(state: State) -> Case:
    (case,) = state.cases.values()
    return case


def test_an_open_case_can_be_answered() -> None:
    state, _ = quarantined("node-3")
    assert why_over(only(state).id, state) is None


def test_an_ended_case_says_so_and_which_one_is_open_now() -> None:
    state, _ = quarantined("node-3")
    case = only(state)
    ended = replace(case, id="q-old", phase=Phase.RELEASED)
    assert why_over("q-old", State(cases={"q-old": ended})) == "case q-old has ended: node-3 was released by it."
    both = State(cases={"q-old": ended, case.id: case})
    assert why_over("q-old", both) == (
        f"case q-old has ended: node-3 was released by it. Case {case.id} is open there now: answer in its message."
    )
    assert why_over("q-old", State(ended=frozenset({"q-old"}))) == "case q-old has ended."


def test_a_case_that_nobody_knows_is_said_to_be_unknown() -> None:
    assert "no case q-9 is known here" in (why_over("q-9", State()) or "")


def test_status_tells_all_that_stands() -> None:
    state, _ = quarantined("node-3", "node-4")
    state = replace(
        state,
        words={
            "pause/all": Word("pause/all", WordKind.PAUSE, "all", "ann (U0ANN) (slack)", "a roll-out", NOW, NOW + HOUR),
            "m": Word("m", WordKind.MAINTENANCE, "rack=r7", "bob (cli)", "new cables", NOW, NOW + HOUR),
        },
        dismissals=(
            Dismissal("node-5", fleet()["node-5"].machine, (), NOW + HOUR, "it is fine", waiver=True),
            Dismissal("node-6", fleet()["node-6"].machine, (), NOW + HOUR, "no fault found"),
        ),
        holds={
            "budget/h100": Hold("budget/h100", HeldBy.BUDGET, "the budget of pool h100 is used up", NOW),
            f"{FILE}hot.yaml": Hold(f"{FILE}hot.yaml", HeldBy.BROKEN_FILE, "hot.yaml:3:1: a tab stands here", NOW),
        },
    )
    lines = status_of(LedgerView(state, (), (ask(RequestKind.RELEASE, "node-4"),)))
    told = "\n".join(lines)
    for wanted in (
        "node-3: quarantined since 2026-",
        "node-4: quarantined since 2026-",
        "paused by ann (U0ANN) (slack)",
        "work is planned on rack=r7 by bob (cli) until",
        "node-5 stays in service until",
        "node-6 is left alone with what was found until",
        "Held:\n• the budget of pool h100 is used up",
        "Broken policy files:\n• hot.yaml:3:1: a tab stands here",
        "Asked and not decided yet:\n• release node-4 by an engineer: the provider says so",
    ):
        assert wanted in told
    assert status_of(LedgerView(State(), (), ())) == ["No case is open."]


def test_status_of_a_storm_is_cut() -> None:
    state, _ = quarantined("node-3")
    many = {f"q-{n}": replace(only(state), id=f"q-{n}", node=f"node-{n}") for n in range(40)}
    lines = status_of(LedgerView(State(cases=many), (), ()))
    assert sum("quarantined since" in line for line in lines) == MOST_CASES
    assert lines[-1] == "And 10 more cases: see quarantine status."


def test_explain_tells_where_a_node_stands_and_why() -> None:
    state, _ = quarantined("node-3")
    lines = story_of("node-3", state, trail("node-3"))
    assert lines[0].startswith("node-3 is quarantined")
    assert "Findings:" in lines
    assert any("#1 quarantine: " in line for line in lines)


def test_explain_of_a_node_that_nothing_was_decided_about() -> None:
    assert story_of("node-9", State(), []) == ["Nothing was ever decided about node-9: see whether it is written so."]


def test_a_long_story_is_told_from_its_end() -> None:
    state, _ = quarantined("node-3")
    rows = trail("node-3")
    case = only(state)
    held = Decision(NOW, Kind.HELD, Action.TICKET, "it waits", "controller", "node-3", case=case.id, phase=case.phase)
    rows += [TrailRow(seq, replace(held, at=NOW + seq * HOUR), "h") for seq in range(10, 40)]
    lines = story_of("node-3", state, rows)
    told = [line for line in lines if " #" in line]
    assert len(told) == MOST_SENTENCES
    assert " #39 " in told[-1]
    assert any(f"{len(rows) - MOST_SENTENCES} earlier decisions" in line for line in lines)


def test_evidence_is_what_the_findings_rest_on() -> None:
    lines = evidence_of(trail("node-3"))
    assert "#1 quarantine: " in lines[0]
    assert any(line.startswith("    query ") for line in lines)
    assert any("by policy gpu-hot" in line for line in lines)
    assert evidence_of([]) == []


@pytest.mark.parametrize("count", [1, 6, 9])
def test_of_much_evidence_the_newest_is_told(count: int) -> None:
    (row, *_) = (r for r in trail("node-3") if r.decision.evidence is not None)
    lines = evidence_of([replace(row, seq=seq) for seq in range(1, count + 1)])
    assert sum(f"#{seq} " in line for line in lines for seq in range(1, 10)) == min(count, 6)
    assert (f"… {count - 6} earlier ones" in lines[0]) == (count > 6)


class Opened:
    """A ledger that shows one state."""

    def __init__(self, state: State) -> None:
        self.state = state

    def load(self) -> LedgerView:
        return LedgerView(self.state, (), ())


def test_who_has_no_say_in_a_swap_is_told_whose_it_is() -> None:
    state, _ = quarantined("node-3")
    wants = policy(response={"ticket": "replace", "approval": {"by": "S0APPROVE"}})
    told = answers(lambda: nullcontext(Opened(state)), lambda: rules(wants)).no_say  # type: ignore[arg-type]
    case = only(state).id
    assert told(case, []) == "whether node-3 is swapped is said by one of the Slack user group S0APPROVE."
    assert told(case, ["S0APPROVE"]) is None
    assert told("q-unknown", []) is None
    assert answers(lambda: nullcontext(Opened(state))).no_say(case, []) is None  # type: ignore[arg-type]
    free = answers(lambda: nullcontext(Opened(state)), rules).no_say  # type: ignore[arg-type]
    assert free(case, []) is None
