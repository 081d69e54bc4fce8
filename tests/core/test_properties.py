"""What holds for every fleet, every fault and every order of events."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import budget
from quarantine.core.case import Case, Effect, Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on, mark, unmark
from quarantine.core.model import Answer, Mode, Node, Sample, Samples, Taint
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.state import fold
from tests.core.world import FAILED, NOW, after, answers, carried_out, fleet, hot, node, policy, rules, snapshot

NODES = 12
offenders = st.lists(
    st.builds(hot, st.sampled_from([f"node-{n}" for n in range(NODES)] + ["ghost"]), st.integers(0, 7)), max_size=20
)
budgets = st.builds(
    lambda q, u, p: {"quarantined": q, "unavailable": u, "perHour": p}, *[st.integers(1, NODES) for _ in range(3)]
)
modes = st.sampled_from(Mode)


def ruled(limits: dict[str, int], share: int = 100) -> Rules:
    pools = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": limits}]
    return rules(policy(breaker={"maxShare": f"{share}%"}), pools=pools)


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Node]:
    nodes = fleet(NODES)
    for name in draw(st.sets(st.sampled_from(sorted(nodes)), max_size=4)):
        ready, cordoned = draw(st.sampled_from([True, False, None])), draw(st.booleans())
        nodes[name] = replace(nodes[name], ready=ready, unschedulable=cordoned)
    return nodes


@given(nodes=fleets(), bad=offenders, limits=budgets, mode=modes, share=st.integers(1, 100))
@settings(max_examples=150, deadline=None)
def test_no_plan_exceeds_a_budget_and_planning_is_idempotent(
    nodes: dict[str, Node], bad: list[Sample], limits: dict[str, int], mode: Mode, share: int
) -> None:
    law = ruled(limits, share)
    look = snapshot(nodes, *bad, mode=mode)
    made = plan(look, law)
    taken = [d for d in made.decisions if d.action is Action.QUARANTINE and d.kind is Kind.DECIDED]
    alive = [d for d in taken if nodes[d.node or ""].ready is not False]
    assert len(alive) <= min(limits["quarantined"], limits["perHour"])
    fresh = [d for d in alive if nodes[d.node or ""].ready and not nodes[d.node or ""].unschedulable]
    already = sum(1 for n in nodes.values() if n.unschedulable or not n.ready)
    assert not fresh or already + len(fresh) <= max(limits["unavailable"], already)
    if mode is Mode.OBSERVE:
        assert not taken
        assert all(not d.effects for d in made.decisions)
    assert all(d.node in nodes for d in taken)
    state = after(State(), made)
    assert plan(replace(look, state=state), law).decisions == ()


@given(
    steps=st.lists(
        st.tuples(offenders, modes, st.booleans(), st.booleans(), st.integers(0, 90)), min_size=1, max_size=6
    ),
    limits=budgets,
)
@settings(max_examples=80, deadline=None)
def test_over_any_history_budgets_hold_and_every_move_is_in_the_table(
    steps: list[tuple[list[Sample], Mode, bool, bool, int]], limits: dict[str, int]
) -> None:
    law, nodes, state, now = ruled(limits), fleet(NODES), State(), NOW
    for bad, mode, blind, done, minutes in steps:
        now += timedelta(minutes=minutes)
        trigger: Answer | None = FAILED if blind else None
        look = snapshot(
            nodes, state=state, mode=mode, now=now, given={"gpu-hot": answers(nodes, *bad, trigger=trigger)}
        )
        before = state
        made = plan(look, law)
        state = after(state, made)  # raises for a move that the table does not have
        if blind:
            assert all(d.action is not Action.QUARANTINE or d.held_by is not None for d in made.decisions)
            assert all(d.action is not Action.RECOVER for d in made.decisions)
        assert plan(replace(look, state=state), law).decisions == ()
        assert budget.accounts(nodes, state, law, now)["gpu"].budget.ours <= max(
            limits["quarantined"], budget.accounts(nodes, before, law, now)["gpu"].budget.ours
        )
        assert fold(before, made.decisions) == state
        per_node = [case.node for case in state.cases.values() if case.open]
        assert len(per_node) == len(set(per_node)), "one open case per node"
        if done and mode is Mode.ENFORCE:
            state, nodes = carried_out(state, nodes, now)


@given(bad=offenders, coverage=st.sampled_from([FAILED, Samples((), "c")]), mode=modes)
@settings(max_examples=60, deadline=None)
def test_no_plan_acts_on_unknown(bad: list[Sample], coverage: Answer, mode: Mode) -> None:
    nodes = fleet(NODES)
    given_answers = {"gpu-hot": answers(nodes, *bad, coverage=coverage)}
    made = plan(snapshot(nodes, given=given_answers, mode=mode), rules())
    assert [d.action for d in made.decisions] == [Action.JUDGE]


keys = st.sampled_from(["a.io/x", "b.io/y", "quarantine.gpu/suspect", "node.kubernetes.io/unschedulable"])
taints = st.lists(
    st.builds(
        Taint, keys, st.sampled_from(["", "v", "q-other"]), st.sampled_from(["NoSchedule", "NoExecute"]), st.just(None)
    ),
    max_size=5,
    unique_by=lambda t: (t.key, t.effect),
)


@given(found=taints, cordoned=st.booleans(), cordon=st.booleans())
def test_foreign_taints_and_cordons_survive_mark_and_unmark(found: list[Taint], cordoned: bool, cordon: bool) -> None:
    prefix = "quarantine.gpu"
    before = node("node-1", taints=tuple(found), unschedulable=cordoned)
    case = Case("q-1", "node-1", before.machine, Phase.QUARANTINED, NOW, NOW, (), "t", "r")
    first = mark(before, case, prefix=prefix, reason="r", cordon=cordon, phase="quarantined")
    assert first.taints is not None
    marked = replace(
        before,
        taints=first.taints,
        unschedulable=cordoned if first.unschedulable is None else first.unschedulable,
        annotations={k: v for k, v in first.annotations.items() if v is not None},
    )
    assert case_on(marked, prefix) == "q-1"
    assert len({(t.key, t.effect) for t in marked.taints}) == len(marked.taints), "the server refuses duplicates"
    assert (
        mark(marked, case, prefix=prefix, reason="r", cordon=cordon, phase="quarantined").annotations
        == first.annotations
    )
    last = unmark(marked, case, prefix=prefix)
    assert last is not None
    foreign = [t for t in found if not (t.key == "quarantine.gpu/suspect" and t.effect == "NoSchedule")]
    assert list(last.taints or ()) == foreign
    after_all = marked.unschedulable if last.unschedulable is None else last.unschedulable
    assert after_all == cordoned, "a cordon found in place stays, ours goes"


def test_the_table_of_transitions_is_whole() -> None:
    assert set(TRANSITIONS) == set(Phase)
    for phase, rule in TRANSITIONS.items():
        ended = phase in (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED)
        assert bool(rule.exits) is not ended
        assert (rule.deadline is None) is ended
        if not ended:
            assert Phase.RETIRED in rule.exits, "a machine may leave at any time"
            assert Phase.DISMISSED in rule.exits, "a person may say no at any time"
    reached = {exit_ for rule in TRANSITIONS.values() for exit_ in rule.exits} | {Phase.SUSPECTED}
    assert reached == set(Phase)


def test_effects_are_carried_out_in_their_order() -> None:
    first = [Effect.MARK, Effect.EVENT, Effect.PHASE, Effect.RUN, Effect.EVICT]
    last = [Effect.UNMARK, Effect.STOP, Effect.CONDITION, Effect.CLOSE, Effect.COMMENT]
    assert list(Effect) == [*first, Effect.TICKET, Effect.REPLACE, Effect.NOTIFY, *last]


# --- What stands in the way -------------------------------------------------------------------------------------------

RACK = {"topology": {"rack": "dc/rack"}, "maintenance": {"annotations": {"ops/work": "*"}}}
policies = st.builds(
    policy,
    st.just("gpu-hot"),
    severity=st.sampled_from(["warning", "critical", "fatal"]),
    mode=modes.map(str),
    breaker=st.just({"maxShare": "100%"}),
    escalation=st.sampled_from([None, {"findings": 2, "within": "2h"}, {"findings": 3, "within": "1d"}]),
    correlation=st.sampled_from(
        [
            None,
            {"by": ["rack"], "machines": 2, "within": "20m"},
            {"by": ["rack"], "machines": 3, "within": "1h", "settle": "10m"},
        ]
    ),
    response=st.sampled_from([{"ticket": "report"}, {"taint": False}]),
)
cycles = st.lists(
    st.tuples(
        st.one_of(
            st.sets(st.builds(lambda n, gpu: (f"node-{n}", gpu), st.integers(0, NODES - 1), st.integers(0, 1))),
            st.builds(lambda rack: {(f"node-{n}", 0) for n in range(4 * rack, 4 * rack + 4)}, st.integers(0, 2)),
            st.builds(lambda n: {(f"node-{n}", 0)}, st.integers(0, 3)),
        ),
        st.booleans(),  # whether what was bad and is not is seen to be good
        st.sets(st.integers(0, NODES - 1), max_size=2),  # where planned work is under way
        st.integers(1, 90),
    ),
    min_size=1,
    max_size=8,
)


def racks(worked_on: set[int]) -> dict[str, Node]:
    return {
        name: replace(
            n,
            labels={"gpu": "yes", "dc/rack": f"r{i // 4}"},
            annotations={"ops/work": "x"} if i in worked_on else {},
        )
        for i, (name, n) in enumerate(fleet(NODES).items())
    }


def in_its_way(law: LoadedPolicy, begun: list[datetime], now: datetime) -> bool:
    """Whether an escalation or settling surely stands in a machine's way. `begun`: when its findings began, all."""
    rule, common = law.spec.escalation, law.spec.correlation
    if rule is not None and len(set(begun)) < rule.findings:
        return True
    return common is not None and common.settle is not None and all(now < at + common.settle for at in begun)


@given(law=policies, history=cycles)
@settings(max_examples=100, deadline=None)
def test_over_any_history_nothing_is_taken_out_past_what_stands_in_the_way(
    law: LoadedPolicy,
    history: list[tuple[set[tuple[str, int]], bool, set[int], int]],
) -> None:
    ruled_by = rules(law, **RACK)  # type: ignore[arg-type]
    state, now, trail = State(), NOW, list[Decision]()
    begun: dict[str, list[datetime]] = {f"node-{n}": [] for n in range(NODES)}
    standing: set[tuple[str, int]] = set()
    for bad, recovers, worked_on, minutes in history:
        now += timedelta(minutes=minutes)
        nodes = racks(worked_on)
        good = [hot(*key, value=60.0) for key in sorted(standing - bad)] if recovers else []
        given_answers = {"gpu-hot": answers(nodes, *(hot(*key) for key in sorted(bad)), good=good)}
        look = snapshot(nodes, state=state, now=now, given=given_answers)
        made = plan(look, ruled_by)
        for name, _ in bad - standing:
            begun[name].append(now)
        standing = bad if recovers else standing | bad
        before, state = state, after(state, made)
        trail += made.decisions
        assert plan(replace(look, state=state), ruled_by).decisions == (), "planning twice yields nothing new"
        assert fold(before, made.decisions) == state
        taken = [d.node or "" for d in made.decisions if d.action is Action.QUARANTINE and d.kind is Kind.DECIDED]
        if law.spec.mode is Mode.OBSERVE or not law.spec.response.taint:
            assert not taken
            assert all(not d.effects for d in made.decisions)
        about = {d.node for d in made.decisions if d.case is not None and d.action in (Action.QUARANTINE, Action.JOIN)}
        assert not about & {f"node-{n}" for n in worked_on}, "nothing begins or goes on during planned work"
        for name in taken:
            assert not in_its_way(law, begun[name], now)
        if (rule := law.spec.correlation) is not None:
            for number in range(NODES // 4):
                rack = {f"node-{n}" for n in range(4 * number, 4 * number + 4)} - {f"node-{n}" for n in worked_on}
                fresh = {name for name, _ in bad if name in rack and begun[name] == [now]}
                # One that recovered a moment ago still counts, so elsewhere nothing may ever have been bad.
                alone = not any(times for name, times in begun.items() if name not in rack)
                if alone and len(fresh) >= rule.machines:
                    assert not fresh & set(taken), "a rack that fails at once is itself the suspect"
    assert fold(State(), trail) == state, "a restart forgets nothing"
