"""What providers and people do about a swap: tickets that are only heard, a yes that counts once, a no that is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from quarantine.core.case import Case, Effect, Phase, Step
from quarantine.core.decision import Action, Decision, Kind, State, WordKind
from quarantine.core.model import Mode, Verdict
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.response import Approval
from quarantine.core.tickets import Filing, Heard, TicketState
from tests.core.invariants.cycle import Cycle

if TYPE_CHECKING:
    from tests.core.invariants.world import World

STANDS = timedelta(days=1)
ARRIVES = timedelta(days=1)
COMES = (TicketState.REPLACED, TicketState.HOST_RELEASED)
OUT = (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED)
TALK = (Action.HEAR, Action.COMMENT)


# --- Tickets ----------------------------------------------------------------------------------------------------------


def no_word_of_a_ticket_moves_a_machine(c: Cycle) -> None:
    """It ends no case, releases no machine and takes none out: without it, the same is decided about machines."""
    for state, d in c.steps:
        if d.action in TALK:
            assert d.phase is None
            assert d.run is None
            assert d.effects in ((), (Effect.COMMENT,))
            assert d.kind is not Kind.DECIDED or state.cases[d.case or ""].open
    heard = any(f.state is not TicketState.FILED or f.open is False for case in _open(c.after) for f in case.filings)
    if not heard or not any(_moves(d) for d in c.made.decisions):
        return
    cases = {key: replace(case, filings=tuple(map(_unheard, case.filings))) for key, case in c.before.cases.items()}
    deaf = replace(c.look, tickets={}, state=replace(c.before, cases=cases))
    told = [d for d in plan(deaf, c.law).decisions if _moves(d)]
    assert told == [d for d in c.made.decisions if _moves(d)], "a ticket's word changes what is done to a machine"


def _unheard(filing: Filing) -> Filing:
    return replace(filing, state=TicketState.FILED, status="", open=None, heard_at=None, acknowledged_at=None)


def _moves(d: Decision) -> bool:
    return d.action not in TALK and not (d.hold_key or "").startswith("provider/")


def each_remark_is_one(c: Cycle) -> None:
    """No two of a case have one key; and what is said to have been told was, unless the ticket is gone."""
    desk = c.world.desk
    for case in c.after.cases.values():
        assert len({remark.key for remark in case.remarks}) == len(case.remarks)
        for remark in case.remarks:
            if remark.said and not remark.given_up and remark.ref not in desk.gone:
                told = desk.told.get(remark.ref, {})
                assert told.get(remark.key) == remark.text, f"{remark.key} was never told to {remark.ref}"


def all_is_said_and_one_ticket_is_open(world: World) -> None:
    """Two hours after trouble is over, tickets know all, and none that was heard of has a double."""
    words = world.state.words.values()
    if world.state.holds.keys() & {"restored", "sight"} or any(word.kind is WordKind.PAUSE for word in words):
        return
    look = world.watch.look
    assert look is not None
    assert look.mode is Mode.ENFORCE
    for case in world.open_cases():
        for remark in case.remarks:
            told = remark.key in world.desk.told.get(remark.ref, {})
            late = remark.at < world.now - timedelta(hours=1) and not remark.given_up
            assert told or not late or remark.ref in world.desk.gone, f"{remark.key} was never told to {remark.ref}"
        made = [e for e in world.book.trail if e.case == case.id and e.effect is Effect.COMMENT]
        assert len(made) <= len(case.remarks), f"{case.node} has {len(made)} comments of {len(case.remarks)} remarks"
        for filing in case.filings:
            for ref in filing.cited:
                assert ref in world.desk.gone or not world.desk.held[ref].ticket.open, f"{ref} is open beside {filing}"
            said = look.tickets.get((filing.target, filing.ref))
            if isinstance(said, Heard) and said.ticket is not None and said.ticket.open:
                assert {other.ref for other in said.others} <= {*filing.cited, *(one.ref for one in case.filings)}


# --- A person's yes ---------------------------------------------------------------------------------------------------


def a_swap_is_asked_for_with_leave(c: Cycle) -> None:
    """By a yes of this case, younger than a day and given since the last request; and not before a no is over."""
    for number, d in enumerate(c.made.decisions):
        if d.rung is None or d.rung.step is not Step.REPLACE:
            continue
        trail = [e for e in (*c.world.book.trail, *c.made.decisions[:number]) if e.case == d.case]
        said = [e for e in trail if e.kind is Kind.DECIDED and e.action in (Action.APPROVE, Action.DEFER)]
        last = said[-1] if said else None
        if last is not None and last.action is Action.DEFER:
            assert last.until is not None
            assert c.look.now >= last.until, f"it was put off until {last.until}"
        case = c.steps[number][0].cases[d.case or ""]
        wants = _wanted(c, case)
        if not wants:
            continue
        before = [e.at for e in trail if e.rung is not None and e.rung.step is Step.REPLACE]
        yes = last is not None and last.action is Action.APPROVE and c.look.now < last.at + STANDS
        fresh = last is not None and (not before or last.at > max(before))
        assert (yes and fresh) or _nobody_answers(c, case, wants), f"nobody has approved that {case.node} is replaced"


def _nobody_answers(c: Cycle, case: Case, wants: list[Approval]) -> bool:
    """For as long as all of them grant, since people know that they are asked."""
    hold = c.before.holds.get(f"approval/{case.id}")
    told = [e.at for e in c.world.book.trail if e.case == case.id and e.kind is Kind.DONE and e.effect is Effect.NOTIFY]
    if hold is None or not told:
        return False
    since = max(hold.since, told[-1])
    return all(w.then == "replace" and w.within is not None and c.look.now >= since + w.within for w in wants)


def a_yes_is_of_this_case_and_of_who_may_give_it(c: Cycle) -> None:
    """One about another case, or from before this one, is refused; so is Slack's of who is not in the group."""
    requests = {request.id: request for request in c.look.requests}
    for state, d in c.decided:
        if d.action not in (Action.APPROVE, Action.DEFER) or d.request is None:
            continue
        asked, case = requests[d.request], state.cases[d.case or ""]
        assert case.open
        assert asked.node == case.node
        assert asked.case in ("", case.id)
        assert asked.case or asked.at >= case.opened_at
        assert case.renewed_at is None or asked.at >= case.renewed_at, "a word about the machine that was there before"
        if asked.channel == "slack":
            groups = {w.by for w in _wanted(c, case) if w.by is not None}
            assert groups <= {*asked.groups}, "who is not in the group may not say it there"


def _wanted(c: Cycle, case: Case) -> list[Approval]:
    """What all that hold something against the machine want; where nobody does any more, all that did."""
    bad = replace(case, findings=tuple(f for f in case.findings if f.verdict is not Verdict.GOOD))
    policies = c.acting(bad) or c.acting(case)
    return [p.spec.response.approval for p in policies if p.spec.response.approval is not None]


# --- What is told -----------------------------------------------------------------------------------------------------


def what_is_told_stands_with_its_cause(c: Cycle) -> None:
    """Every hold of a provider's or an approver's is lifted in the cycle in which its cause is gone."""
    if c.after.holds.keys() & {"restored", "sight"} or c.look.mode is not Mode.ENFORCE:
        return
    for key in c.after.holds:
        kind, _, rest = key.partition("/")
        if kind == "provider":
            name, _, what = rest.partition("/")
            case = c.after.cases[name]
            assert case.open, f"{key} outlives its case"
            assert case.marked
            assert case.phase not in (Phase.SWAPPED, Phase.PROBATION), key
            assert any(_CAUSES.get(what, _said(what))(c, case, filing) for filing in case.filings[-1:]), key
        elif kind == "approval":
            case = c.after.cases[rest]
            assert case.open, f"{key} outlives its case"
            assert case.phase in OUT, key
            assert _wanted(c, case), f"{key}: no policy wants a yes"
            assert case.deferred_until is None or c.look.now >= case.deferred_until, f"{key} is asked though put off"
        elif kind == "unapproved":
            assert f"approval/{rest}" in c.after.holds, f"{key} outlives what was asked"


def _said(what: str) -> Callable[[Cycle, Case, Filing], bool]:
    def cause(_: Cycle, case: Case, filing: Filing) -> bool:
        if what.startswith("untold-"):
            return any(remark.given_up for remark in case.remarks if what == f"untold-{remark.key}")
        return str(filing.state) == what or (what == "closed" and filing.open is False)

    return cause


def _arrives(c: Cycle, _: Case, filing: Filing) -> bool:
    return filing.state in COMES and filing.heard_at is not None and c.look.now >= filing.heard_at + ARRIVES


def _acknowledge(c: Cycle, case: Case, filing: Filing) -> bool:
    span = _promised(c.law, case, "acknowledge")
    return filing.state is TicketState.FILED and span is not None and c.look.now >= filing.at + span


def _replace(c: Cycle, case: Case, filing: Filing) -> bool:
    span = _promised(c.law, case, "replace")
    return case.phase is Phase.SWAP_REQUESTED and span is not None and c.look.now >= filing.at + span


def _promised(law: Rules, case: Case, what: str) -> timedelta | None:
    pool = next((p for p in law.fleet.pools if p.name == case.pool), None)
    name = pool.provider if pool is not None else case.provider
    return next((getattr(p, what) for p in law.fleet.providers if p.name == name), None)


_CAUSES: Mapping[str, Callable[[Cycle, Case, Filing], bool]] = {
    "arrives": _arrives,
    "acknowledge": _acknowledge,
    "replace": _replace,
}


def _open(state: State) -> Iterator[Case]:
    return (case for case in state.cases.values() if case.open)
