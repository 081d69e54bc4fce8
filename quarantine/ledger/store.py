"""The ledger of one cluster on SQLAlchemy: the ports `Ledger` and `LedgerReader`, for Postgres and SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from quarantine.core.case import Effect, EffectStatus
from quarantine.core.decision import Decision, Request, State, Word
from quarantine.core.document import Written
from quarantine.core.errors import UsageError
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger import inbox, inforce, outbox, projections, revision, said, trail, whose, writer
from quarantine.ledger.endedholds import ended
from quarantine.ledger.engine import Opened, make_engine, reading, writing
from quarantine.ledger.pulse import Pulse, pulse
from quarantine.ledger.remembered import Remembered
from quarantine.ledger.text import escape
from quarantine.ledger.trail import Head
from quarantine.ledger.url import is_sqlite, masked
from quarantine.ledger.verify import Broken, Sound, verify
from quarantine.ports import EndedHold, LedgerView, TrailRow


def open_ledger(url: str | URL, cluster: str, *, now: Callable[[], datetime]) -> SqlLedger:
    """The ledger at a URL. Connects at its first use, so a process may start while its database is down.

    Raises UsageError for a URL or a cluster name that cannot be one.
    """
    return SqlLedger(make_engine(url), cluster, now=now)


class SqlLedger(Opened):
    """Implements `Ledger`. Safe to share between threads; whoever opens it closes it."""

    def __init__(self, engine: Engine, cluster: str, *, now: Callable[[], datetime]) -> None:
        """`engine` comes from `make_engine`, and is closed with the ledger."""
        if not cluster or len(cluster) > 253 or escape(cluster) != cluster:
            raise UsageError(f"{cluster!r:.80} is no cluster name; write 1 to 253 plain characters")
        super().__init__(engine)
        self._cluster = cluster
        self._now = now
        self._holder: str | None = None  # as whom the term was taken, if it was taken here
        self._known: writer.Known | None = None  # spares the leader the reading of what it has just written
        self._decoded = projections.Decoded()

    def __repr__(self) -> str:
        """Without the password."""
        return f"SqlLedger({masked(self._engine.url)!r}, {self._cluster!r})"

    @property
    def embedded(self) -> bool:
        """Whether this is SQLite, which serves one replica."""
        return is_sqlite(self._engine.url)

    # --- LedgerReader -------------------------------------------------------------------------------------------------

    def load(self) -> LedgerView:
        """The present state, the outbox and the open requests, as of one moment."""
        known = self._known
        with reading(self._engine) as connection:
            revision.require(connection)
            head = trail.head_of(connection, self._cluster)
            ended = known.state.ended if known is not None and known.head == head else None
            view = LedgerView(
                state=projections.load(connection, self._cluster, self._now(), decoded=self._decoded, ended=ended),
                pending=outbox.pending(connection, self._cluster),
                requests=inbox.unanswered(connection, self._cluster),
            )
        remembered = known.remembered if known is not None and known.head == head else Remembered()
        self._known = writer.Known(head, view.state, remembered)
        return view

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:
        """The trail in order, of a node or of a case; streamed in pages, what is appended meanwhile included."""
        return trail.read(self._engine, self._cluster, node=node, case=case)

    def ask(self, request: Request) -> None:
        """Append what a person asks. Asking twice under one id is asking once."""
        with writing(self._engine) as connection:
            revision.hold(connection)
            inbox.ask(connection, self._cluster, request)

    def rule_files(self) -> tuple[RuleFile, ...]:
        """The versions of the policy files that were accepted last."""
        with reading(self._engine) as connection:
            revision.require(connection)
            return inforce.files(connection, self._cluster)

    def policy_runs(self) -> Mapping[str, PolicyRun] | None:
        """By policy: for how many cycles its present version was judged. None: `keep_rules` was never called."""
        with reading(self._engine) as connection:
            revision.require(connection)
            return inforce.runs(connection, self._cluster)

    def waiting(self) -> frozenset[str]:
        """The ids of unanswered requests, and nothing else of the ledger."""
        with reading(self._engine) as connection:
            return inbox.waiting(connection, self._cluster)

    def ended_holds(self, since: datetime) -> tuple[EndedHold, ...]:
        """The holds that ended since then, oldest first."""
        with reading(self._engine) as connection:
            return ended(connection, self._cluster, since)

    def identity(self) -> str | None:
        """Of the cluster whose trail this is; None: it is not known yet."""
        with reading(self._engine) as connection:
            revision.require(connection)
            return whose.identity(connection, self._cluster)

    def require_same(self, identity: str | None) -> None:
        """Raises OtherCluster where the trail is known to be another cluster's, or some cluster's, and this is None."""
        with reading(self._engine) as connection:
            revision.require(connection)
            whose.require(connection, self._cluster, identity)

    def pulse(self) -> Pulse | None:
        """The last sign of life of a controller; None where there never was one."""
        with reading(self._engine) as connection:
            return pulse(connection, self._cluster)

    def words(self, until: datetime) -> Mapping[str, Word]:
        """People's pauses and planned work as they stood at a moment, by key."""
        return said.words(self._engine, self._cluster, until)

    def verify(self) -> Sound | Broken:
        """Walk the chain; the first bad row, or how many there are."""
        return verify(self._engine, self._cluster)

    # --- Ledger -------------------------------------------------------------------------------------------------------

    def take_term(self, holder: str, identity: str | None = None) -> int:
        """Become the writer: earlier terms can write no more, nor the same term of another holder.

        Raises OtherCluster where the trail is another cluster's than that of this identity; nothing is written then.
        """
        self._holder = holder  # before the commit, whose answer may be lost
        self._known = None  # who had the term may have made the tables anew, without a decision
        with writing(self._engine) as connection:
            revision.hold(connection)
            return writer.take_term(connection, self._cluster, holder, self._now(), identity)

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[Written] = ()) -> int:
        """Append decisions, fold them, put their effects into the outbox: one transaction, all or nothing.

        Returns the number of the newest row of the trail. With no decisions, only the term is checked and the texts of
        the policies are kept. Raises ValueError for a
        decision that could not have been taken in the ledger's state; nothing is recorded then.
        """
        if decisions and not policies and (at_once := self._append_at_once(term, decisions)) is not None:
            return at_once
        with self._fenced(term) as (connection, head):
            writer.keep_texts(connection, self._cluster, policies, self._now())
            known = self._append(connection, head, decisions) if decisions else self._known
        self._known = known
        return known.head.seq if decisions and known is not None else head.seq

    def keep_rules(self, term: int, files: Sequence[RuleFile], runs: Mapping[str, PolicyRun]) -> None:
        """These are the versions in force, and no others; those that are kept already stay as they are."""
        with self._fenced(term) as (connection, _):
            inforce.keep(connection, self._cluster, files, runs)

    def attempt(self, term: int, key: str, at: datetime) -> None:
        """About to try an effect: committed before it is tried. Raises Conflict where it is not pending."""
        with self._fenced(term) as (connection, _):
            outbox.attempt(connection, self._cluster, key, at)

    def postpone(self, term: int, key: str, error: str, *, ended: bool = False) -> None:
        """The attempt failed, and a later cycle tries again. Raises Conflict where it is not pending.

        `ended`: it is certain that it left nothing done, so that whoever tries again has nothing to look up.
        """
        with self._fenced(term) as (connection, _):
            outbox.postpone(connection, self._cluster, key, error, ended=ended)

    def settle(self, term: int, key: str, outcome: Decision) -> int:
        """The effect has its outcome: append it, fold it, and take the effect out of the outbox.

        Returns the number of the row. Raises Conflict where the effect is not pending, and ValueError where `outcome`
        is another effect's.
        """
        if outcome.case is None or outcome.effect is None or outbox.key_of(outcome.case, outcome.effect) != key:
            raise ValueError(f"the outcome of {outcome.case}/{outcome.effect} cannot settle {key}")
        known = self._known
        pending = known is not None and _is_pending(known.state, outcome.case, outcome.effect)
        if pending and (at_once := self._append_at_once(term, [outcome])) is not None:
            return at_once
        with self._fenced(term) as (connection, head):
            outbox.require_pending(connection, self._cluster, key)
            known = self._append(connection, head, [outcome])
        self._known = known
        return known.head.seq

    def _append(self, connection: Connection, head: Head, decisions: Sequence[Decision]) -> writer.Known:
        """What it returns may be remembered only once the transaction is committed; until then nothing is known."""
        known, self._known = self._known, None
        return writer.append(connection, self._cluster, head, decisions, self._now(), known)

    def _append_at_once(self, term: int, decisions: Sequence[Decision]) -> int | None:
        """Without a word but what is to be written, where that can be done; else nothing is written, and it is None."""
        if self._known is None or self.embedded or len(decisions) > writer.FEW:
            return None
        known, self._known = self._known, None
        with writing(self._engine) as connection:
            after = writer.append_at_once(connection, self._cluster, term, self._holder, decisions, self._now(), known)
        self._known = after
        return None if after is None else after.head.seq

    @contextmanager
    def _fenced(self, term: int) -> Iterator[tuple[Connection, Head]]:
        """A transaction of the writer."""
        with writing(self._engine) as connection:
            yield connection, writer.fence(connection, self._cluster, term, self._holder, self._now())


def _is_pending(state: State, case: str, effect: Effect) -> bool:
    """Whether the outbox has it, as of the state's head: it follows the cases."""
    known = state.cases.get(case)
    return known is not None and effect in known.effects and known.effects[effect].status is EffectStatus.PENDING
