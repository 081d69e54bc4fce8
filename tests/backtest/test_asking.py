"""A server that is away is not asked hundreds of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quarantine.backtest.asking import AWAY, GIVEN_UP, PATIENCE, Asker
from quarantine.core.model import Failed, FailureKind
from quarantine.core.series import Grid, RangeAnswer, Tracks

GRID = Grid(datetime(2026, 11, 1, tzinfo=UTC), timedelta(minutes=1), 10)


class Server:
    """Answers, or is away."""

    def __init__(self) -> None:
        self.away = True
        self.asked = 0

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:  # noqa: ARG002
        self.asked += 1
        if self.away:
            return Failed(FailureKind.TIMEOUT, "it did not answer within 2m", promql)
        return Tracks((), grid, promql)


def asker(server: Server) -> Asker:
    return Asker(server, timedelta(minutes=2))


def known(server: Server) -> Asker:
    """Asked once, when it was there."""
    ask = asker(server)
    server.away = False
    ask("up", GRID)
    server.away = True
    return ask


def test_after_a_few_questions_in_a_row_no_more_are_put() -> None:
    server = Server()
    ask = asker(server)
    for _ in range(100):
        ask("up", GRID)
    assert server.asked == GIVEN_UP


def test_one_that_answered_before_is_given_a_little_more() -> None:
    server = Server()
    ask = known(server)
    answers = [ask("up", GRID) for _ in range(100)]
    assert server.asked == 1 + AWAY
    assert all(isinstance(a, Failed) and a.detail == "it did not answer within 2m" for a in answers)


def test_one_question_of_the_next_piece_finds_out_that_it_is_back() -> None:
    server = Server()
    ask = known(server)
    for _ in range(AWAY):
        ask("up", GRID)
    server.away = False
    ask.begin_piece()
    assert all(isinstance(ask("up", GRID), Tracks) for _ in range(5))


def test_in_the_end_it_is_not_asked_any_more() -> None:
    server = Server()
    ask = known(server)
    for _ in range(100):
        ask.begin_piece()
        for _ in range(50):
            ask("up", GRID)
    assert server.asked == 1 + AWAY + PATIENCE


def test_a_question_that_fails_among_others_that_do_not_keeps_being_asked() -> None:
    server = Server()
    ask = asker(server)
    for number in range(20):
        server.away = number % 2 == 0
        ask("up", GRID)
    server.away = False
    assert isinstance(ask("up", GRID), Tracks)
