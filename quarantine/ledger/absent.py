"""The embedded ledger before anything was recorded: empty, and not made by looking at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from quarantine.core.decision import Request, State, Word
from quarantine.core.errors import UsageError
from quarantine.core.record.report import Material
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger.url import is_sqlite, parse_url
from quarantine.ports import Filed, LedgerView, Sighting, TrailRow


def missing_file(url: str) -> Path | None:
    """The file of an embedded ledger that does not exist yet; None for any other."""
    parsed = parse_url(url)
    if not is_sqlite(parsed) or parsed.database is None or parsed.database.startswith("file:"):
        return None
    path = Path(parsed.database)
    return None if path.exists() else path


class _Absent:
    """Opened and closed as what it stands for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class AbsentLedger(_Absent):
    """A reader of nothing."""

    embedded = True

    def load(self) -> LedgerView:
        """Nothing was decided, asked or held."""
        return LedgerView(State(), (), ())

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:  # noqa: ARG002
        """None."""
        return iter(())

    def rule_files(self) -> tuple[RuleFile, ...]:
        """None."""
        return ()

    def policy_runs(self) -> Mapping[str, PolicyRun] | None:
        """Nothing was ever kept."""
        return None

    def words(self, until: datetime) -> Mapping[str, Word]:  # noqa: ARG002
        """Nobody has said anything."""
        return {}

    def waiting(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def identity(self) -> str | None:
        """It is nobody's yet."""
        return None

    def require_same(self, identity: str | None) -> None:
        """It is nobody's yet."""

    def ask(self, request: Request) -> None:
        """Raises UsageError: there is nobody to ask."""
        raise UsageError(
            f"there is no ledger at {self.path} to record {request.kind} {request.node} in; run a cycle first"
        )


class AbsentArchive(_Absent):
    """An archive of nothing."""

    def clusters(self) -> tuple[str, ...]:
        """None."""
        return ()

    def sightings(self, name: str) -> tuple[Sighting, ...]:  # noqa: ARG002
        """Nowhere."""
        return ()

    def history(self, name: str) -> Iterator[Filed]:  # noqa: ARG002
        """Nothing was decided."""
        return iter(())

    def material(self, since: datetime, until: datetime, cluster: str | None = None) -> Material:  # noqa: ARG002
        """Nothing happened."""
        return Material(since, until, ())
