"""How answers look: tables for people, JSON for programs. Text from outside never becomes markup."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from quarantine.cli.options import Output
from quarantine.core import explain
from quarantine.core.case import Case, Evidence
from quarantine.core.decision import Decision, Hold, State
from quarantine.core.rulefiles import FILE, RuleFile
from quarantine.core.snapshot import Plan
from quarantine.core.units import format_number
from quarantine.ports import LedgerView, TrailRow


def console() -> Console:
    """Made anew, so that it follows stdout where a test or a pipe has put it; as wide as it needs to be in a pipe."""
    found = Console(soft_wrap=False)
    return found if found.is_terminal else Console(width=200)


def as_json(value: object) -> None:
    """One document on stdout. Numbers that JSON does not have are text."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def evidence(found: Evidence | None) -> dict[str, object] | None:
    """As JSON has it."""
    if found is None:
        return None
    return {
        "query": found.query,
        "value": found.value,
        "unit": found.unit,
        "threshold": found.threshold,
        "at": found.at,
        "source": found.source,
        "labels": dict(found.labels),
        "covered": found.covered,
        "offenders": found.offenders,
    }


def decision(made: Decision) -> dict[str, object]:
    """As JSON has it."""
    return {
        "node": made.node,
        "device": str(made.device) if made.device else None,
        "policy": made.policy,
        "verdict": made.verdict.value if made.verdict else None,
        "action": made.action.value,
        "held_by": made.held_by.value if made.held_by else None,
        "reason": made.reason,
        "evidence": evidence(made.evidence),
        "case": made.case,
        "severity": made.severity.value if made.severity else None,
    }


def plan(made: Plan, output: Output) -> None:
    """`quarantine plan`."""
    if output is Output.JSON:
        as_json({"now": made.now, "decisions": [decision(d) for d in made.decisions], "summary": made.summary})
        return
    if made.decisions:
        table = _table("node", "device", "action", "held by", "value", "reason")
        for d in made.decisions:
            _row(table, d.node, d.device, d.action, d.held_by, _value(d.evidence), d.reason)
        console().print(table)
    typer.echo(f"{made.summary[0].upper()}{made.summary[1:]}.")


def status(view: LedgerView, files: Sequence[RuleFile], output: Output) -> None:
    """`quarantine status`. `files`: the versions of the policy files that are in force."""
    state = view.state
    cases = sorted((c for c in state.cases.values() if c.open), key=lambda c: c.opened_at)
    if output is Output.JSON:
        as_json(
            {
                "cases": [case(c) for c in cases],
                "broken_files": [broken_file(h, files) for h in _holds(state) if h.key.startswith(FILE)],
                "holds": [
                    {"key": h.key, "held_by": h.held_by.value, "reason": h.reason, "since": h.since}
                    for h in _holds(state)
                ],
                "pending": [
                    {"case": p.case, "effect": p.effect.value, "attempts": p.attempts, "last_error": p.last_error}
                    for p in view.pending
                ],
                "requests": [
                    {"kind": r.kind.value, "node": r.node, "actor": r.actor, "reason": r.reason} for r in view.requests
                ],
            }
        )
        return
    if cases:
        table = _table("node", "case", "phase", "since", "held by", "findings", "ticket")
        for c in cases:
            _row(table, c.node, c.id, c.phase, _when(c.phase_since), c.held_by, _findings(c), _ticket(c))
        console().print(table)
    else:
        typer.echo("No case is open.")
    _lines("Broken policy files:", (h.reason for h in _holds(state) if h.key.startswith(FILE)))
    _lines("Held:", (h.reason for h in _holds(state) if not h.key.startswith(("case/", FILE))))
    _lines(
        "Waiting to be done:", (f"{p.effect} of case {p.case}: {p.last_error or 'not tried yet'}" for p in view.pending)
    )
    _lines("Asked and not decided yet:", (f"{r.kind} {r.node} by {r.actor}: {r.reason}" for r in view.requests))


def broken_file(hold: Hold, files: Sequence[RuleFile]) -> dict[str, object]:
    """As JSON has it. `in_force_since` is null where no version of it is in force."""
    file = hold.key.removeprefix(FILE)
    accepted = [one.accepted_at for one in files if one.file == file or one.file.startswith(f"{file.rstrip('/')}/")]
    return {"file": file, "reason": hold.reason, "since": hold.since, "in_force_since": max(accepted, default=None)}


def case(c: Case) -> dict[str, object]:
    """As JSON has it."""
    return {
        "id": c.id,
        "node": c.node,
        "phase": c.phase.value,
        "since": c.phase_since,
        "opened_at": c.opened_at,
        "held_by": c.held_by.value if c.held_by else None,
        "reason": c.reason,
        "pool": c.pool,
        "findings": [
            {
                "policy": f.policy,
                "device": str(f.device),
                "severity": f.severity.value,
                "verdict": f.verdict.value,
                "since": f.since,
                "evidence": evidence(f.evidence),
            }
            for f in c.findings
        ],
        "effects": {effect.value: {"status": s.status.value, "ref": s.ref} for effect, s in c.effects.items()},
    }


def story(node: str, state: State, rows: Sequence[TrailRow], now: Sequence[str], output: Output) -> None:
    """`quarantine explain`. `now`: what the policies see at this moment, where nothing is held against the node."""
    if output is Output.JSON:
        found = [c for c in state.cases.values() if c.node == node]
        told = [
            {
                "seq": r.seq,
                "at": r.decision.at,
                "kind": r.decision.kind.value,
                "actor": r.decision.actor,
                **decision(r.decision),
            }
            for r in rows
        ]
        as_json(
            {
                "node": node,
                "standing": explain.standing(node, state),
                "cases": [case(c) for c in found],
                "trail": told,
                "now": list(now),
            }
        )
        return
    typer.echo(f"{explain.standing(node, state)}.")
    current = state.open_case_of(node)
    if current is not None:
        _lines("Findings:", explain.findings(current))
    if rows:
        typer.echo("\nThe trail:")
        for sentence in explain.story((row.seq, row.decision) for row in rows):
            typer.echo(f"  {_when(sentence.at)}  #{sentence.seq}  {_safe(sentence.text)}")
            for line in sentence.evidence:
                typer.echo(f"  {' ' * 19}    {_safe(line)}")
    _lines("What the policies see now:", now)


def _lines(title: str, lines: Iterable[str]) -> None:
    found = list(lines)
    if found:
        typer.echo(f"\n{title}")
        for line in found:
            typer.echo(f"  {_safe(line)}")


def _holds(state: State) -> list[Hold]:
    return sorted(state.holds.values(), key=lambda hold: hold.since)


def _findings(c: Case) -> str:
    return "; ".join(f"{f.policy}: {f.device} ({f.verdict})" for f in c.findings) or c.reason


def _ticket(c: Case) -> str:
    return next((state.ref for effect, state in c.effects.items() if effect.value == "ticket"), "")


def _value(found: Evidence | None) -> str:
    return "" if found is None or found.value is None else f"{format_number(found.value)} {found.unit}"


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold")
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(*(escape(_safe("" if cell is None else str(cell))) for cell in cells))


def _safe(text: str) -> str:
    """Without control characters: a label must not move a reader's cursor."""
    return "".join(c if c.isprintable() else "�" for c in text)
