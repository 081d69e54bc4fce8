"""What people on Slack are told when they ask: the same answers as the command line's, as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quarantine.core import explain
from quarantine.core.case import Case, Effect
from quarantine.core.decision import State
from quarantine.core.holding import held
from quarantine.core.signs import in_utc
from quarantine.ports import LedgerView, TrailRow

MOST_CASES = 20  # told one by one
LAST = 12  # of a story: the newest; the command line has all of it


def status(view: LedgerView) -> list[str]:
    """What is open, what is held beside the cases, and what people asked and nobody has decided yet."""
    cases = sorted((c for c in view.state.cases.values() if c.open), key=lambda c: (c.opened_at, c.id))
    lines = [_case(case) for case in cases[:MOST_CASES]] or ["No case is open."]
    if len(cases) > MOST_CASES:
        lines.append(f"… and {len(cases) - MOST_CASES} more: see quarantine status")
    holds = sorted(view.state.holds.values(), key=lambda hold: (hold.since, hold.key))
    lines += [f"held: {hold.reason}" for hold in holds if not hold.key.startswith("case/")][:MOST_CASES]
    asked = [f"asked and not decided yet: {r.kind} {r.node or r.scope} by {r.actor}" for r in view.requests]
    return [*lines, *asked[:MOST_CASES]]


def story(node: str, view: LedgerView, rows: Iterable[TrailRow]) -> list[str]:
    """Why a node is out, or why not, and the last of what was decided about it."""
    known = [(row.seq, row.decision) for row in rows]
    case = view.state.open_case_of(node)
    if not known and case is None:
        return [f"Nothing is known of {node}: no decision is about it."]
    lines = [f"{explain.standing(node, view.state)}{held(node, view.state)}."]
    lines += explain.findings(case) if case is not None else []
    told = explain.story(known)
    if len(told) > LAST:
        lines.append(f"… {len(told) - LAST} earlier decisions: see quarantine explain {node}")
    return lines + [f"{in_utc(sentence.at)} #{sentence.seq} {sentence.text}" for sentence in told[-LAST:]]


def evidence(case: str, rows: Iterable[TrailRow]) -> list[str]:
    """What a case was opened for and what joined it, with everything that one needs to check it."""
    return list(_evidence(case, rows))


def over(case: str, state: State) -> str | None:
    """Why nothing can be said to a case any more, a whole sentence; None where something can."""
    known = state.cases.get(case)
    if known is not None and known.open:
        return None
    if known is None:
        return "this case is over, or was never opened here: look at what the newest message of its node says."
    newer = state.open_case_of(known.node)
    then = f"; case {newer.id} is open on {known.node} now" if newer is not None else ""
    return f"case {case} on {known.node} is {known.phase} since {in_utc(known.phase_since)}{then}."


def _evidence(case: str, rows: Iterable[TrailRow]) -> Iterator[str]:
    found = [(r.seq, r.decision) for r in rows if r.decision.case == case and r.decision.evidence is not None]
    for sentence in explain.story(found)[-LAST:]:
        yield f"{in_utc(sentence.at)} #{sentence.seq} {sentence.text}"
        yield from sentence.evidence


def _case(case: Case) -> str:
    tickets = [s.ref for e, s in case.effects.items() if e in (Effect.TICKET, Effect.REPLACE) and s.ref]
    ticket = f", ticket {', '.join(tickets)}" if tickets else ""
    holds = f", held by {case.held_by}" if case.held_by else ""
    found = "; ".join(f"{f.policy}: {f.device} ({f.verdict})" for f in case.findings) or case.reason
    return f"{case.node} {case.phase} since {in_utc(case.phase_since)}{holds}{ticket}: {found}"
