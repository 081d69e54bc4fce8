"""The trail as a file: JSON Lines, from which the chain can be verified without this program, or CSV for spreadsheets.

Rows are read in pages and written one by one, so memory does not grow with the trail.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, Row, func, select

from quarantine.core.errors import SchemaMismatch
from quarantine.ledger import revision
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import decisions
from quarantine.ledger.text import fit
from quarantine.ledger.trail import pages

CSV_COLUMNS = (
    *("cluster", "seq", "at", "kind", "action", "case", "phase", "node", "node_uid", "provider_id", "system_uuid"),
    *(
        "device",
        "pool",
        "policy",
        "policy_hash",
        "policy_revision",
        "severity",
        "verdict",
        "value",
        "unit",
        "threshold",
    ),
    *("held_by", "effect", "ref", "request", "until", "actor", "reason", "hash"),
)
_FORMULA = frozenset("=+-@＝＋－＠")  # with what a cell begins that a spreadsheet computes

Lines = Iterator[str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which decisions: of which time, `since` included and `until` not, of a node, of a case."""

    since: datetime | None = None
    until: datetime | None = None
    node: str | None = None
    case: str | None = None


def json_lines(engine: Engine, cluster: str, chosen: Chosen) -> Lines:
    """One object a line; its last member, `body`, is the stored text, byte for byte. Raises as `pages`.

    Where somebody made that text something else than an object in one line, `body` is a string which holds it.
    """
    name = json.dumps(cluster)
    for row in _rows(engine, cluster, chosen):
        body = row.body if _data(row.body) is not None else json.dumps(row.body)
        hashes = f'"prev_hash":{json.dumps(row.prev_hash)},"hash":{json.dumps(row.hash)}'
        yield f'{{"cluster":{name},"seq":{row.seq},{hashes},"body":{body}}}\n'


def comma_separated(engine: Engine, cluster: str, chosen: Chosen) -> Lines:
    """Rows of `CSV_COLUMNS`, without the heading. Raises as `pages`, and SchemaMismatch where a text is no decision."""
    for row in _rows(engine, cluster, chosen):
        data = _data(row.body)
        if data is None:
            raise SchemaMismatch(
                f"decision {row.seq} of cluster {cluster!r} is no JSON object; run `quarantine audit verify`, or "
                "export the trail as jsonl"
            )
        yield _csv_line([*_cells(cluster, row, data)])


def csv_heading() -> str:
    """The first line."""
    return _csv_line(CSV_COLUMNS)


def _rows(engine: Engine, cluster: str, chosen: Chosen) -> Iterator[Row[Any]]:
    """In the order of the chain."""
    wanted: list[ColumnElement[bool]] = [decisions.c.cluster == cluster]
    if chosen.since is not None:
        wanted.append(decisions.c.at >= chosen.since)
    if chosen.until is not None:
        wanted.append(decisions.c.at < chosen.until)
    if chosen.node is not None:
        wanted.append(decisions.c.node == fit(chosen.node))
    if chosen.case is not None:
        wanted.append(decisions.c.case_id == fit(chosen.case))
    # Asked first, by the index of time or node: the pages follow the chain, and then read nothing before or behind.
    with reading(engine) as connection:
        revision.require(connection)
        ends = connection.execute(select(func.min(decisions.c.seq), func.max(decisions.c.seq)).where(*wanted)).one()
    first, last = ends
    if first is None:
        return
    columns = (decisions.c.seq, decisions.c.prev_hash, decisions.c.hash, decisions.c.body)
    yield from pages(engine, [*wanted, decisions.c.seq >= first], *columns, upto=last)


def _data(body: str) -> dict[str, Any] | None:
    """What the body says; None where it is no JSON object in one line."""
    if not body.isprintable():
        return None
    try:
        data = json.loads(body, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _cells(cluster: str, row: Row[Any], data: dict[str, Any]) -> Iterator[Any]:
    machine, device, evidence = (_part(data, name) for name in ("machine", "device", "evidence"))
    found = {
        **{name: data.get(name) for name in CSV_COLUMNS},
        **{name: machine.get(name) for name in ("node_uid", "provider_id", "system_uuid")},
        **{name: evidence.get(name) for name in ("value", "unit", "threshold")},
        "device": f"{device.get('kind')}:{device.get('name')}" if device else None,
        "cluster": cluster,
        "seq": row.seq,
        "hash": row.hash,
    }
    return (found[name] for name in CSV_COLUMNS)


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _csv_line(cells: Sequence[Any]) -> str:
    # Quoted, so that a spreadsheet which separates by semicolons finds no cell of its own within a text.
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: Any) -> str | int | float:
    """Text that no spreadsheet computes, no terminal obeys and every encoding holds; a number stays one."""
    if isinstance(value, (int, float)):
        return value
    shown = "" if value is None else "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in str(value))
    return f"'{shown}" if shown.lstrip()[:1] in _FORMULA else shown


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"
