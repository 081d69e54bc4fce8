"""Which decision answered a request: as the decisions say, beside what the table of requests says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Index, MetaData, Select, Table, Text, and_, exists, or_, select
from sqlalchemy.schema import CreateIndex, CreateTable, DropTable

from quarantine.core.decision import Decision
from quarantine.ledger.schema import requests
from quarantine.ledger.text import stored_as
from quarantine.ledger.upsert import insert_all

_noted = Table(
    "rebuilt_answers",
    MetaData(),
    Column("cluster", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Index("rebuilt_answers_idx", "id", "seq"),
    prefixes=["TEMPORARY"],
)


class Answers:
    """A temporary table of all answers, for one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Make it."""
        self._connection = connection
        connection.execute(CreateTable(_noted))
        for index in _noted.indexes:
            connection.execute(CreateIndex(index))

    def close(self) -> None:
        """Drop it."""
        self._connection.execute(DropTable(_noted))

    def note(self, cluster: str, numbered: Sequence[tuple[int, Decision]]) -> None:
        """Take down which requests these decisions answer."""
        answers = [
            {"cluster": cluster, "id": stored, "seq": seq}
            for seq, decision in numbered
            if decision.request is not None
            for stored in stored_as(decision.request)
        ]
        insert_all(self._connection, _noted, answers)

    def wrong(self, cluster: str) -> Select[Any]:
        """Requests that name a decision that does not answer them, or none though one does: see `Staging.wrong`."""
        return (
            select(
                requests.c.cluster.label("is_cluster"),
                requests.c.id.label("is_id"),
                requests.c.answered_seq.label("is_answered_seq"),
                requests.c.id.label("be_id"),
                _first().label("be_answered_seq"),
            )
            .where(requests.c.cluster == cluster, _wrong())
            .order_by(requests.c.id)
        )

    def copy(self, cluster: str) -> None:
        """Make the requests name their answers: the first one, where there are several."""
        right = requests.update().where(requests.c.cluster == cluster, _wrong()).values(answered_seq=_first())
        self._connection.execute(right)


def _of_request() -> Any:
    return and_(_noted.c.cluster == requests.c.cluster, _noted.c.id == requests.c.id)


def _first() -> Any:
    first = select(_noted.c.seq).where(_of_request()).order_by(_noted.c.seq).limit(1)
    return first.correlate(requests).scalar_subquery()


def _wrong() -> Any:
    answers = exists(select(_noted.c.seq).where(_of_request()).correlate(requests))
    named = exists(
        select(_noted.c.seq).where(_of_request(), _noted.c.seq == requests.c.answered_seq).correlate(requests)
    )
    return or_(and_(requests.c.answered_seq.is_(None), answers), and_(requests.c.answered_seq.is_not(None), ~named))
