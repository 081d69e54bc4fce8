"""How `quarantine explain` looks: a node's cases, each told in a sentence and tied to the rows that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import typer

from quarantine.cli import records
from quarantine.cli.markdown import Markdown, bullets, code, escape, heading, listed, written
from quarantine.cli.options import Output
from quarantine.cli.render import left_alone, lines, safe, when, word, words
from quarantine.core import explain
from quarantine.core.decision import State, WordKind
from quarantine.core.holding import held, holds_of
from quarantine.core.record.chapters import Chapter, Told, chapters, hardware, headline
from quarantine.ports import TrailRow

NO_CASE = "Of no case"


@dataclass(frozen=True)
class Account:
    """What is told of a node.

    `now` is what the policies see at this moment, where that was asked. `asof` is the moment that everything is told
    of; None: the present. `only` names the one case that is told; empty: all of them.
    """

    node: str
    state: State  # where things stand, now or at `asof`
    rows: Sequence[TrailRow]  # of the node, in order, none later than `asof`
    now: Sequence[str] = ()
    asof: datetime | None = None
    only: str = ""

    @cached_property
    def told(self) -> Told:
        """The trail by its cases."""
        return chapters((r.seq, r.decision) for r in self.rows)

    @property
    def shown(self) -> list[Chapter]:
        """Those of its chapters that are told."""
        return [c for c in self.told.chapters if not self.only or (c.case is not None and c.case.id == self.only)]

    @property
    def standing(self) -> str:
        """Where the node stands, or stood, in a sentence that says by what."""
        said = f"{explain.standing(self.node, self.state)}{held(self.node, self.state)}"
        if self.asof is None:
            return f"{said}."
        last = self.rows[-1].seq if self.rows else 0
        return f"At {when(self.asof)} UTC, by its decisions up to #{last} and nothing later: {said}."


def show(account: Account, output: Output) -> None:
    """On stdout."""
    match output:
        case Output.JSON:
            records.as_json(_as_data(account))
        case Output.MARKDOWN:
            typer.echo("\n".join(_as_markdown(account)).rstrip())
        case Output.TABLE:
            _as_text(account)


# --- Text -------------------------------------------------------------------------------------------------------------


def _as_text(account: Account) -> None:
    typer.echo(safe(account.standing))
    for title, said in _present(account):
        lines(title, said)
    for chapter in account.shown:
        typer.echo(f"\n{safe(_title(chapter))}")
        if chapter.case is not None:
            typer.echo(f"  {safe(headline(chapter))}.")
            typer.echo(f"  machine: {safe(hardware(chapter.case.sent_away or chapter.case.machine))}")
        for sentence in explain.story(chapter.rows):
            typer.echo(f"  {when(sentence.at)}  #{sentence.seq}  {safe(sentence.text)}")
            for line in sentence.evidence:
                typer.echo(f"  {' ' * 19}    {safe(line)}")
    lines("What does not follow:", _odd(account))
    lines("What the policies see now:", account.now)


def _present(account: Account) -> Iterator[tuple[str, list[str]]]:
    """What is held against the node, and what people said: of the moment that is told of."""
    state, node = account.state, account.node
    case = state.open_case_of(node)
    if case is not None and account.only in ("", case.id):
        yield "Findings:", explain.findings(case)
    about = [w for w in words(state) if w.kind is WordKind.PAUSE or w.scope == node or "=" in w.scope]
    stand = [w for w in about if account.asof is None or w.until is None or w.until > account.asof]
    alone = [d for d in state.dismissals if d.node == node and (account.asof is None or d.until > account.asof)]
    yield "What people said:", [*(word(w) for w in stand), *(left_alone(d) for d in alone)]


def _title(chapter: Chapter) -> str:
    return NO_CASE if chapter.case is None else f"Case {chapter.case.id}"


def _odd(account: Account) -> list[str]:
    """Rows that a sound trail does not have."""
    return [
        f"decision #{seq} could not have been taken after those before it: run quarantine audit verify"
        for seq in account.told.odd
    ]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _as_markdown(account: Account) -> Iterator[str]:
    yield from heading(account.node)
    yield from (written(account.standing), "")
    for title, said in _present(account):
        yield from listed(title, said)
    for chapter in account.shown:
        yield from heading(_title(chapter), 4)
        if chapter.case is not None:
            yield from (f"**{written(headline(chapter))}.**", "")
            yield from (f"Machine: {written(hardware(chapter.case.sent_away or chapter.case.machine))}", "")
        for sentence in explain.story(chapter.rows):
            yield from bullets([Markdown(f"{when(sentence.at)} **#{sentence.seq}** {escape(sentence.text)}")])
            yield from bullets(map(evidence_line, sentence.evidence), depth=1)
        yield ""
    yield from listed("What does not follow:", _odd(account))
    yield from listed("What the policies see now:", account.now)


def evidence_line(line: str) -> Markdown:
    """PromQL is to be copied: it stands as it was sent."""
    if line.startswith(explain.QUERY):
        return Markdown(f"{explain.QUERY}{code(line.removeprefix(explain.QUERY))}")
    return escape(line)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _as_data(account: Account) -> dict[str, object]:
    state = account.state
    return {
        "node": account.node,
        "as_of": account.asof,
        "standing": account.standing.removesuffix("."),
        "cases": [
            {
                **records.case(c.case),
                "headline": headline(c),
                "times": None if c.times is None else records.times(c.times),
            }
            for c in account.shown
            if c.case is not None
        ],
        "holds": [records.hold(h) for h in holds_of(account.node, state)],
        "words": [records.word(w) for w in words(state)],
        "left_alone": [records.dismissal(d) for d in state.dismissals if d.node == account.node],
        "trail": [_row(row) for row in account.rows if not account.only or row.decision.case == account.only],
        "odd": list(account.told.odd),
        "now": list(account.now),
    }


def _row(row: TrailRow) -> dict[str, object]:
    made = row.decision
    told = {"seq": row.seq, "hash": row.hash, "at": made.at, "kind": made.kind.value, "actor": made.actor}
    return {**told, **records.decision(made)}
