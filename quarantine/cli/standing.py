"""`quarantine status`: what stands. Open cases, what is under way, people's words, holds, and what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer

from quarantine.cli import markdown, records
from quarantine.cli.options import Output
from quarantine.cli.render import console, left_alone, lines, row, safe, table, when, word, words
from quarantine.core import explain
from quarantine.core.case import Case, Effect
from quarantine.core.decision import Hold, State
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.rulefiles import FILE, RuleFile
from quarantine.core.waivers import WAIVED_KEY
from quarantine.ports import LedgerView

NARROW = 100  # columns; a table of cases does not fit below
NONE = "No case is open."
_HEADS = ("node", "case", "phase", "since", "told at", "held by", "findings", "ticket")


def status(view: LedgerView, files: Sequence[RuleFile], output: Output) -> None:
    """`files`: the versions of the policy files that are in force."""
    if output is Output.JSON:
        records.as_json(_as_data(view, files))
        return
    cases = _open(view.state)
    if output is Output.MARKDOWN:
        typer.echo("\n".join(_as_markdown(view, cases)).rstrip())
        return
    if not cases:
        typer.echo(NONE)
    elif console().width < NARROW:
        _blocks(cases)
    else:
        _table(cases)
    for title, said in _sections(view, cases):
        lines(title, said)


def _sections(view: LedgerView, cases: Sequence[Case]) -> Iterator[tuple[str, list[str]]]:
    """What is told beneath the cases; some of them are empty."""
    state, held = view.state, _holds(view.state)
    yield "Under way:", [f"{c.node}: {said}" for c in cases for said in explain.treatment(c)]
    yield "What people said:", list(_words(state))
    yield "Broken policy files:", [h.reason for h in held if h.key.startswith(FILE)]
    yield "Held:", [h.reason for h in held if not h.key.startswith(("case/", FILE, WAIVED_KEY))]
    waits = [f"{p.effect} of case {p.case}: {p.last_error or 'not tried yet'}" for p in view.pending]
    yield "Waiting to be done:", waits
    asked = [f"{r.kind} {r.node or r.scope} by {r.actor}: {r.reason}" for r in view.requests]
    yield "Asked and not decided yet:", asked


def _as_markdown(view: LedgerView, cases: Sequence[Case]) -> Iterator[str]:
    yield from markdown.table(_HEADS, map(_cells, cases)) or (NONE, "")
    for title, said in _sections(view, cases):
        yield from markdown.listed(title, said)


def _as_data(view: LedgerView, files: Sequence[RuleFile]) -> dict[str, object]:
    state, held = view.state, _holds(view.state)
    return {
        "cases": [records.case(c) for c in _open(state)],
        "words": [records.word(w) for w in words(state)],
        "left_alone": [records.dismissal(d) for d in state.dismissals],
        "broken_files": [records.broken_file(h, files) for h in held if h.key.startswith(FILE)],
        "holds": [records.hold(h) for h in held],
        "pending": [records.pending(p) for p in view.pending],
        "requests": [records.request(r) for r in view.requests],
    }


def _table(cases: Sequence[Case]) -> None:
    shown = table(*_HEADS)
    for c in cases:
        row(shown, *_cells(c))
    console().print(shown)


def _cells(c: Case) -> tuple[object, ...]:
    return c.node, c.id, c.phase, when(c.phase_since), _deadline(c), c.held_by, _findings(c), _ticket(c)


def _blocks(cases: Sequence[Case]) -> None:
    for c in cases:
        held = f", held by {c.held_by}" if c.held_by else ""
        typer.echo(safe(f"{c.node}  {c.phase} since {when(c.phase_since)}{held}"))
        ticket = f", ticket {_ticket(c)}" if _ticket(c) else ""
        typer.echo(safe(f"  case {c.id}{ticket}"))
        typer.echo(safe(f"  people are told at {_deadline(c)}: {TRANSITIONS[c.phase].overdue}"))
        for found in explain.findings(c) or [c.reason]:
            typer.echo(safe(f"  {found}"))


def _words(state: State) -> Iterator[str]:
    """Pauses and planned work first, then what is left alone; an annotation's word is known by the hold that it is."""
    yield from (word(said) for said in words(state))
    yield from (left_alone(said) for said in state.dismissals)
    yield from (hold.reason for hold in _holds(state) if hold.key.startswith(WAIVED_KEY))


def _open(state: State) -> list[Case]:
    return sorted((c for c in state.cases.values() if c.open), key=lambda c: (c.opened_at, c.id))


def _holds(state: State) -> list[Hold]:
    return sorted(state.holds.values(), key=lambda hold: (hold.since, hold.key))


def _deadline(c: Case) -> str:
    """By the phase alone; what policies ask for may take longer."""
    limit = TRANSITIONS[c.phase].deadline
    return "" if limit is None else f"{c.phase_since + limit:%Y-%m-%d %H:%M}"


def _findings(c: Case) -> str:
    return "; ".join(f"{f.policy}: {f.device} ({f.verdict})" for f in c.findings) or c.reason


def _ticket(c: Case) -> str:
    return ", ".join(s.ref for e, s in c.effects.items() if e in (Effect.TICKET, Effect.REPLACE) and s.ref)
