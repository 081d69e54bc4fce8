"""Which rules are in force: the accepted text of each policy file, and how long each policy has run in its version.

No part of the trail, and rebuilt from the files at any time: what decides is kept in `policy_versions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select

from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger.schema import policy_runs, rule_files
from quarantine.ledger.text import escape, fit, unescape
from quarantine.ledger.upsert import upsert


def files(connection: Connection, cluster: str) -> tuple[RuleFile, ...]:
    """By path."""
    rows = connection.execute(select(rule_files).where(rule_files.c.cluster == cluster)).all()
    found = (
        RuleFile(
            unescape(row.path),
            unescape(row.text),
            row.hash,
            None if row.revision is None else unescape(row.revision),
            row.accepted_at,
            None if row.defaults is None else unescape(row.defaults),
        )
        for row in rows
    )
    return tuple(sorted(found, key=lambda one: one.file))


def runs(connection: Connection, cluster: str) -> dict[str, PolicyRun] | None:
    """By policy; None where nothing was ever kept, which is not the same as that there were no policies."""
    kept = select(rule_files.c.file).where(rule_files.c.cluster == cluster).limit(1)
    found = _runs(connection, cluster)
    return found if found or connection.execute(kept).first() is not None else None


def _runs(connection: Connection, cluster: str) -> dict[str, PolicyRun]:
    rows = connection.execute(select(policy_runs).where(policy_runs.c.cluster == cluster)).all()
    return {unescape(row.policy): PolicyRun(row.version, row.cycles) for row in rows}


def keep(connection: Connection, cluster: str, kept: Sequence[RuleFile], known: Mapping[str, PolicyRun]) -> None:
    """These and no others. A version that is there already stays as it is, with the time of its acceptance."""
    columns = (rule_files.c.file, rule_files.c.hash, rule_files.c.revision, rule_files.c.defaults)
    there = connection.execute(select(*columns).where(rule_files.c.cluster == cluster))
    before = {row.file: (row.hash, row.revision, row.defaults) for row in there}
    given = {fit(one.file): one for one in kept}
    rows = [_file_row(cluster, key, one) for key, one in given.items()]
    changed = [r for r in rows if before.get(r["file"]) != (r["hash"], r["revision"], r["defaults"])]
    upsert(connection, rule_files, changed)
    if gone := [{"gone": key} for key in before.keys() - given.keys()]:
        of_one = (rule_files.c.cluster == cluster, rule_files.c.file == bindparam("gone"))
        connection.execute(delete(rule_files).where(*of_one), gone)
    standing = _runs(connection, cluster)
    longer = {name: run for name, run in known.items() if standing.get(name) != run}
    upsert(
        connection,
        policy_runs,
        [
            {"cluster": cluster, "policy": fit(name), "version": run.version, "cycles": run.cycles}
            for name, run in longer.items()
        ],
    )
    if forgotten := [{"gone": fit(name)} for name in standing.keys() - known.keys()]:
        of_one = (policy_runs.c.cluster == cluster, policy_runs.c.policy == bindparam("gone"))
        connection.execute(delete(policy_runs).where(*of_one), forgotten)


def _file_row(cluster: str, key: str, one: RuleFile) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "file": key,
        "path": escape(one.file),
        "text": escape(one.text),
        "hash": one.hash,
        "revision": None if one.revision is None else escape(one.revision),
        "accepted_at": one.accepted_at,
        "defaults": None if one.defaults is None else escape(one.defaults),
    }
