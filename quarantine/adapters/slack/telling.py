"""What the desk tells people, out of the ledger: the sentences of the command line, short enough for a message.

A message has no scroll bar: of a long story the newest part is told, and where the whole of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from quarantine.adapters.slack.commands import Views
from quarantine.adapters.slack.desk import Answers
from quarantine.core import explain, pauses
from quarantine.core.case import Case, Effect
from quarantine.core.decision import Request, State, Word, WordKind
from quarantine.core.policy import Rules
from quarantine.core.record.chapters import chapters, headline
from quarantine.core.rulefiles import FILE
from quarantine.core.treatment import approval
from quarantine.core.waivers import WAIVED_KEY
from quarantine.ports import LedgerReader, LedgerView, TrailRow

MOST_CASES = 30
MOST_SENTENCES = 12  # of a story
MOST_PROOFS = 6  # decisions whose evidence is told


def answers(
    reader: Callable[[], AbstractContextManager[LedgerReader]], rules: Callable[[], Rules] | None = None
) -> Answers:
    """What the desk needs, each from a ledger that is opened for it: the desk has a thread of its own.

    `rules`: those in force now, by which somebody may have no say; without them the leader alone tells.
    """

    def ask(request: Request) -> None:
        with reader() as ledger:
            ledger.ask(request)

    def over(case: str) -> str | None:
        with reader() as ledger:
            return why_over(case, ledger.load().state)

    def evidence(case: str) -> Sequence[str]:
        with reader() as ledger:
            return evidence_of(ledger.decisions(case=case))

    def status() -> Sequence[str]:
        with reader() as ledger:
            return status_of(ledger.load())

    def story(node: str) -> Sequence[str]:
        with reader() as ledger:
            return story_of(node, ledger.load().state, ledger.decisions(node=node))

    def no_say(case: str, groups: Collection[str]) -> str | None:
        if rules is None:
            return None
        with reader() as ledger:
            known = ledger.load().state.cases.get(case)
        wanted = approval.wanted(known, rules()) if known is not None else None
        if known is None or wanted is None or wanted.groups <= frozenset(groups):
            return None
        return f"whether {known.node} is swapped is said by {wanted}."

    return Answers(ask, over, evidence, Views(status, story), no_say)


def why_over(case: str, state: State) -> str | None:
    """Why nothing can be said to a case any more, as a sentence; None while it is open (invariant 16)."""
    found = state.cases.get(case)
    if found is not None and found.open:
        return None
    if found is None and case not in state.ended:
        return f"no case {case} is known here: this message may be of another cluster, or of an older record."
    told = f"case {case} has ended"
    if found is None:
        return f"{told}."
    told = f"{told}: {found.node} was {found.phase} by it"
    later = state.open_case_of(found.node)
    return f"{told}. Case {later.id} is open there now: answer in its message." if later is not None else f"{told}."


def status_of(view: LedgerView) -> list[str]:
    """As `quarantine status`: open cases, what people said, what is held, and what waits."""
    state = view.state
    cases = sorted((c for c in state.cases.values() if c.open), key=lambda c: (c.opened_at, c.id))
    lines = [line for case in cases[:MOST_CASES] for line in _case(case)] or ["No case is open."]
    if len(cases) > MOST_CASES:
        lines.append(f"And {len(cases) - MOST_CASES} more cases: see quarantine status.")
    holds = sorted(state.holds.values(), key=lambda hold: (hold.since, hold.key))
    lines += _titled("What people said:", _words(state))
    lines += _titled("Broken policy files:", (h.reason for h in holds if h.key.startswith(FILE)))
    lines += _titled("Held:", (h.reason for h in holds if not h.key.startswith(("case/", FILE, WAIVED_KEY))))
    pending = (f"{p.effect} of case {p.case}: {p.last_error or 'not tried yet'}" for p in view.pending)
    lines += _titled("Waiting to be done:", pending)
    asked = (f"{r.kind} {r.node or r.scope} by {r.actor}: {r.reason}" for r in view.requests)
    return lines + _titled("Asked and not decided yet:", asked)


def story_of(node: str, state: State, rows: Iterable[TrailRow]) -> list[str]:
    """As `quarantine explain NODE`: where it stands, its findings, and the newest case in sentences."""
    trail = [(row.seq, row.decision) for row in rows]
    if not trail:
        return [f"Nothing was ever decided about {node}: see whether it is written so."]
    lines = [f"{explain.standing(node, state)}."]
    open_case = state.open_case_of(node)
    lines += _titled("Findings:", explain.findings(open_case) if open_case is not None else ())
    lines += _titled("Left alone:", (f"until {_at(d.until)}: {d.reason}" for d in state.dismissals if d.node == node))
    told = [chapter for chapter in chapters(trail).chapters if chapter.case is not None]
    if told:
        lines.append(f"{headline(told[-1])}.")
    story = explain.story(told[-1].rows if told else trail)
    if len(story) > MOST_SENTENCES:
        lines.append(f"… {len(story) - MOST_SENTENCES} earlier decisions: see quarantine explain {node}")
    lines += [f"{_at(s.at)} #{s.seq} {s.text}" for s in story[-MOST_SENTENCES:]]
    if len(told) > 1:
        lines.append(f"There were {len(told) - 1} earlier cases: see quarantine explain {node}")
    return lines


def evidence_of(rows: Iterable[TrailRow]) -> list[str]:
    """What the findings of a case rest on: the newest decisions with evidence, oldest first; empty without any."""
    found = explain.story((r.seq, r.decision) for r in rows if r.decision.evidence is not None)
    lines = [f"… {len(found) - MOST_PROOFS} earlier ones: see quarantine explain"] if len(found) > MOST_PROOFS else []
    for sentence in found[-MOST_PROOFS:]:
        lines.append(f"{_at(sentence.at)} #{sentence.seq} {sentence.text}")
        lines += [f"    {line}" for line in sentence.evidence]
    return lines


def _case(case: Case) -> Iterator[str]:
    held = f", held by {case.held_by}" if case.held_by else ""
    refs = [s.ref for e, s in case.effects.items() if e in (Effect.TICKET, Effect.REPLACE) and s.ref]
    ticket = f", ticket {', '.join(refs)}" if refs else ""
    yield f"{case.node}: {case.phase} since {_at(case.phase_since)}{held}{ticket} (case {case.id})"
    yield from (f"    {line}" for line in (*explain.findings(case), *explain.treatment(case)))


def _words(state: State) -> Iterator[str]:
    for word in sorted(state.words.values(), key=lambda word: (word.since, word.key)):
        yield pauses.told(word) if word.kind is WordKind.PAUSE else _work(word)
    for said in state.dismissals:
        what = "stays in service" if said.waiver else "is left alone with what was found"
        yield f"{said.node} {what} until {_at(said.until)}: {said.reason}"
    yield from (hold.reason for hold in state.holds.values() if hold.key.startswith(WAIVED_KEY))


def _work(word: Word) -> str:
    until = f" until {_at(word.until)}" if word.until is not None else ""
    return f"work is planned on {word.scope} by {word.by}{until}: {word.reason}"


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    """A title and what stands under it; nothing where nothing does."""
    found = [f"• {line}" for line in lines]
    return [title, *found] if found else []


def _at(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
