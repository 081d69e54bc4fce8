"""The triggers that keep the trail append-only: whether they are there, switched on, and what they were made as.

The owner of the tables can switch them off, and superusers can. So `quarantine audit verify` looks, and `drift` does.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, text

from quarantine.ledger.schema import TRIGGERS

_UPDATE_OR_DELETE = 1 | 2 | 8 | 16  # pg_trigger.tgtype: for each row, before, delete, update
_TRUNCATE = 2 | 32  # before, truncate
_FUNCTION = (
    "BEGIN RAISE EXCEPTION 'the trail is append-only: no % on %', TG_OP, TG_TABLE_NAME USING ERRCODE = '23001'; END"
)
# tgenabled A: also where session_replication_role is replica. No WHEN, and no list of columns.
_POSTGRES = text("""
    SELECT t.tgname AS name, t.tgenabled = 'A' AS always,
        c.relname || ' ' || t.tgtype || ' ' || (t.tgqual IS NULL) || ' ' || t.tgattr::text || ' ' || p.prosrc AS made_as
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgname IN :names AND pg_table_is_visible(c.oid)
""").bindparams(bindparam("names", expanding=True))
_SQLITE = text("SELECT name, true AS always, sql AS made_as FROM sqlite_master WHERE type = 'trigger'")
_KEYS = {"decisions": "seq", "policy_versions": "hash"}


def differences(connection: Connection) -> list[str]:
    """One line for each trigger that is not as it was made, beginning with `missing:` or `differs:`."""
    dialect = connection.dialect.name
    names = TRIGGERS[dialect]
    rows = (
        connection.execute(_SQLITE).all()
        if dialect == "sqlite"
        else connection.execute(_POSTGRES, {"names": names}).all()
    )
    found = {row.name: row for row in rows}
    told = []
    for name, made_as in _expected(dialect).items():
        if name not in found:
            told.append(f"missing: trigger {name}")
        elif not found[name].always:
            told.append(f"differs: trigger {name} is switched off, or can be by a setting")
        elif _plain(found[name].made_as) != _plain(made_as):
            told.append(f"differs: trigger {name} does not do what it was made for")
    return told


def _expected(dialect: str) -> Mapping[str, str]:
    made = {}
    for name in TRIGGERS[dialect]:
        table, _, kind = name.partition("_append_only" if name.endswith("_append_only") else "_no_")
        made[name] = _of_postgres(table, kind) if dialect == "postgresql" else _of_sqlite(table, kind)
    return made


def _of_postgres(table: str, kind: str) -> str:
    return f"{table} {_TRUNCATE if kind == 'truncate' else _UPDATE_OR_DELETE} true  {_FUNCTION}"


def _of_sqlite(table: str, kind: str) -> str:
    refused = f"BEGIN SELECT RAISE(ABORT, 'the trail is append-only: no {kind} on {table}'); END"
    if kind != "replace":
        return f"CREATE TRIGGER {table}_no_{kind} BEFORE {kind} ON {table} {refused}"
    key = _KEYS[table]
    same = f"(cluster = NEW.cluster AND {key} = NEW.{key}) OR rowid = NEW.rowid"
    there = f"SELECT 1 FROM {table} WHERE {same}"  # noqa: S608  (compared with, and never run)
    return f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN EXISTS ({there}) {refused}"


def _plain(sql: str) -> str:
    """Without what makes no difference."""
    return "".join(sql.split()).lower()
