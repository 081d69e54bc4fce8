"""A backtest as the comment of a pull request. Whatever comes from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from quarantine.cli.backtest import words
from quarantine.cli.backtest.words import Report
from quarantine.cli.markdown import table, written

MARKER = "<!-- quarantine policy backtest -->"  # by it the comment is found again, and changed in place
LONGEST_COMMENT = 60_000  # characters; GitHub takes 65,536
_MOST = 50  # rows of one table


def markdown(report: Report) -> str:
    """A comment for a pull request; it begins with a marker by which it is found again."""
    result, difference = report.head, report.difference
    parts = [
        MARKER,
        "### Backtest of the policies",
        "",
        f"**{written(words.headline(report))}**",
        "",
        written(words.period(result)),
        "",
    ]
    if difference is None:
        parts += _md_table("Taken out", words.OUTAGE, words.outage_rows(result.outages, result))
    else:
        parts += _md_table("Newly taken out", words.OUTAGE, words.outage_rows(difference.added, result))
        parts += _md_table("No longer taken out", words.SPARED, words.spared_rows(difference))
        parts += _md_table("At another time or by another policy", words.MOVED, words.moved_rows(difference))
    if report.record is not None:
        parts += _md_table("By the trail", words.SCORE, words.score_rows(report.record))
        parts += [written(words.missed(report.record)), ""]
    for line in words.unseen(result):
        parts += [f"> **Not known:** {written(line)}", ""]
    held = list(words.held_rows([h for h in result.held if not h.stray], result))
    parts += _folded(f"Found, and held back ({len(held)})", _md_table("", words.HELD, held)) if held else []
    parts += _folded("What this assumes", [f"- {written(line)}" for line in result.assumptions])
    text = "\n".join(parts)
    return text if len(text) <= LONGEST_COMMENT else _cut(text)


def _cut(text: str) -> str:
    kept = text[: LONGEST_COMMENT - 200]
    kept = kept[: kept.rfind("\n")]
    opened = kept.count("<details>") - kept.count("</details>")
    return kept + "\n\n" + "</details>\n" * opened + "**Cut here:** the whole is longer than a comment may be."


def _md_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    found = list(rows)
    if not found:
        return []
    lines = [*([f"**{title}**", ""] if title else []), *table(heads, found[:_MOST])]
    return [*lines, f"… and {len(found) - _MOST} more.", ""] if len(found) > _MOST else lines


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{escape(title)}</summary>", "", *lines, "", "</details>", ""]
