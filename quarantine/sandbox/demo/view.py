"""The demo on screen: fleet, open cases and decisions as they happen; plain lines where there is no terminal."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from quarantine.core.case import Case, Phase
from quarantine.core.decision import RECORDS, Kind
from quarantine.core.explain import told
from quarantine.ports import LedgerView, TrailRow
from quarantine.sandbox.demo.outcome import Outcome

_LINES = 14  # of the log, on a terminal


class View:
    """Shows what happens. `say` is for the narrator, `update` for what the ledger and the cluster have."""

    def __init__(self, console: Console, nodes: Iterable[str]) -> None:
        self.console = console
        self._names = list(nodes)
        self._started = time.monotonic()
        self._log: list[Text] = []
        self._cases: list[Case] = []
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """A line of what happens."""
        line = Text(f"{time.monotonic() - self._started:6.1f} s  ", style="dim")
        line.append(text, style=style)
        self._log.append(line)
        if self._live is None:
            self.console.print(line, soft_wrap=True)
        else:
            self._draw()

    def update(self, view: LedgerView, new: Iterable[TrailRow]) -> None:
        """The ledger has moved on."""
        self._cases = [case for case in view.state.cases.values() if case.open]
        for row in (row for row in new if row.decision.action not in RECORDS):  # what is done about machines
            decision = row.decision
            style = {Kind.DECIDED: "bold red", Kind.HELD: "yellow", Kind.DONE: "green", Kind.FAILED: "magenta"}
            self.say(f"#{row.seq} {told(decision)}", style[decision.kind])
        if self._live is not None:
            self._draw()

    def _draw(self) -> None:
        assert self._live is not None  # noqa: S101
        self._live.update(Group(self._fleet(), self._findings(), self._decisions()))

    def _fleet(self) -> RenderableType:
        state = {case.node: case.phase for case in self._cases}
        cells = []
        for name in self._names:
            phase = state.get(name)
            style = "green" if phase is None else "yellow" if phase is Phase.SUSPECTED else "bold white on red"
            cells.append(Text(f" {name.removeprefix('gpu-node-')} ", style=style))
        return Panel(
            Columns(cells, padding=(0, 1), width=6),
            title="fleet: green in service, red quarantined",
            title_align="left",
        )

    def _findings(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for title, width in (("node", 12), ("case", 12), ("phase", 11), ("finding", None)):
            table.add_column(title, overflow="ellipsis", no_wrap=True, min_width=width)
        for case in self._cases:
            found = "; ".join(f"{f.device}: {f.evidence.threshold}" for f in case.findings)
            table.add_row(*(escape(str(cell)) for cell in (case.node, case.id, case.phase, found)))
        return Panel(table, title="cases", title_align="left")

    def _decisions(self) -> RenderableType:
        lines = self._log[-_LINES:]
        shown = [line.copy() for line in lines]
        for line in shown:
            line.truncate(self.console.width - 4, overflow="ellipsis")
        return Panel(Group(*shown), title="what happens", title_align="left")

    def picture(self, path: Path, outcome: Outcome) -> None:
        """The last scene and the account, as an SVG that needs nothing from elsewhere."""
        console = Console(record=True, width=150, file=io.StringIO(), force_terminal=True)
        console.print(self._fleet(), self._findings())
        closing(console, outcome)
        console.print(outcome.last_line, highlight=False, markup=False)
        # The stock template fetches a font from the network: whoever looks at the picture has one of their own.
        template = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        console.save_svg(str(path), title="scripts/demo", code_format=template)


def closing(console: Console, outcome: Outcome) -> None:
    """The account: what was caught, and why the decoys were left alone."""
    table = Table(title="Taken out, reported and asked for", title_justify="left", expand=False)
    for title in ("", "node", "device", "evidence", "decision", "ticket"):
        table.add_column(title, overflow="fold")
    for caught in outcome.caught:
        cells = (caught.scene.node, caught.scene.device, caught.evidence, caught.decision, caught.ticket)
        table.add_row(_mark(right=caught.right), *(escape(cell) for cell in cells))
    console.print(table)
    decoys = Table(title="Left alone", title_justify="left", expand=False)
    for title in ("", "node", "what it was", "why nothing was done"):
        decoys.add_column(title, overflow="fold")
    for decoy in outcome.left_alone:
        why = "\n".join(decoy.why) or "it was not left alone"
        told = (decoy.scene.node, decoy.scene.title, why)
        decoys.add_row(_mark(right=decoy.right), *(escape(cell) for cell in told))
    console.print(decoys)
    for fault in outcome.faults:
        console.print(f"[red]not as it must be:[/red] {escape(fault)}")


def _mark(*, right: bool) -> str:
    return "[green]✓[/green]" if right else "[red]✗[/red]"
