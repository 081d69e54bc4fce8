"""What people's words were at a moment, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core.decision import Action, Decision, Kind, Word, WordKind
from quarantine.ledger.store import SqlLedger
from tests.ledger.samples import NOW, quarantined

HOUR = timedelta(hours=1)


def says(key: str, at: datetime, kind: WordKind = WordKind.PAUSE) -> Decision:
    word = Word(key, kind, key.partition("/")[2], "an engineer (cli)", "a roll-out", at)
    action = Action.PAUSE if kind is WordKind.PAUSE else Action.MAINTAIN
    return Decision(at, Kind.DECIDED, action, "said", word.by, word=word)


def ends(key: str, at: datetime) -> Decision:
    return replace(says(key, at), action=Action.RESUME, word=None, unword=key)


def test_words_stand_from_their_decision_to_the_one_that_ends_them(ledger: SqlLedger) -> None:
    work = says("maintenance/rack=r7", NOW + 2 * HOUR, WordKind.MAINTENANCE)
    rows = [
        says("pause/all", NOW),
        quarantined(1, at=NOW + HOUR),
        work,
        ends("pause/all", NOW + 3 * HOUR),
        says("pause/all", NOW + 5 * HOUR),
    ]
    ledger.record(ledger.take_term("test"), rows)

    def stood(hours: float) -> set[str]:
        return set(ledger.words(NOW + hours * HOUR))

    assert stood(-1) == set()
    assert stood(0) == {"pause/all"}
    assert stood(2.5) == {"pause/all", "maintenance/rack=r7"}
    assert stood(3) == {"maintenance/rack=r7"}
    assert stood(9) == {"pause/all", "maintenance/rack=r7"}
    assert ledger.words(NOW + 9 * HOUR) == ledger.load().state.words
    assert ledger.words(NOW + 4 * HOUR)["maintenance/rack=r7"] == work.word
