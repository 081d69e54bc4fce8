"""The ledger: reachable, of this version, writable by this role, and whether a controller writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

from quarantine import app, whose
from quarantine.core.errors import OtherCluster, QuarantineError, UsageError
from quarantine.core.units import format_duration
from quarantine.doctor.finding import Finding, Skipped, fault, good, note, warning
from quarantine.doctor.patient import Patient
from quarantine.ledger.absent import AbsentLedger
from quarantine.ledger.ownrights import own_rights
from quarantine.ledger.pulse import Pulse
from quarantine.ledger.schema import REVISION
from quarantine.ledger.url import is_sqlite, masked, parse_url

_NAMED = 4  # missing rights that are told


def check(patient: Patient) -> Iterator[Finding]:
    """All of it."""
    url = patient.settings.database_url.get_secret_value()
    parsed = parse_url(url)
    if is_sqlite(parsed):
        yield from _embedded(patient)
    with app.reader(patient.settings) as book:
        if isinstance(book, AbsentLedger):
            yield note(f"there is no ledger at {book.path} yet", "the first `quarantine run` makes it")
            return
        pulse = book.pulse()
        yield good(f"the ledger {masked(parsed)} answers, and is at schema {REVISION}, this version's")
        yield from _pulse(pulse, patient)
    if not is_sqlite(parsed):
        yield from _role(url)


def check_whose(patient: Patient) -> Iterator[Finding]:
    """Whether the trail is that of the cluster that answers here."""
    name = patient.settings.cluster
    with ExitStack() as stack:
        try:
            book = app.reader(patient.settings)
            stack.enter_context(book)
            known = book.identity()
        except QuarantineError:
            raise Skipped("the ledger cannot be read") from None
        if isinstance(book, AbsentLedger):
            return  # as was said
        seen = whose.identity_of(patient.answering_cluster())
        try:
            book.require_same(seen)
        except OtherCluster as error:
            yield fault(str(error))
            return
    if known is not None:
        yield good(f"the trail of {name} is that of this cluster")
    elif seen is None:
        yield note(f"whose the trail of {name} is cannot be told", "grant the right to get namespaces, see above")
    else:
        yield note(
            f"the ledger does not know yet whose the trail of {name} is", "start `quarantine run`, which keeps it"
        )


def _embedded(patient: Patient) -> Iterator[Finding]:
    if not patient.enforces:
        yield note("the ledger is an SQLite file: for a single controller, and to try it", "Postgres, to run it")
        return
    try:
        inside = patient.cluster().in_cluster
    except UsageError:
        inside = False  # the check of Kubernetes says why
    if inside:
        yield fault(
            "mode enforce on SQLite inside a cluster is refused: a lost pod loses the record of what was taken out",
            "set database_url to a Postgres, or mode to observe",
        )
    else:
        yield warning(
            "mode enforce keeps its record in an SQLite file: whoever loses this disk loses what was taken out and why",
            "set database_url to a Postgres",
        )


def _pulse(pulse: Pulse | None, patient: Patient) -> Iterator[Finding]:
    if pulse is None:
        yield note(f"no controller has ever written for cluster {patient.settings.cluster}", "start `quarantine run`")
        return
    if pulse.read_only:
        yield fault("the ledger's server takes no writes", "point database_url at the primary, or make it writable")
    age = max(timedelta(0), patient.now() - pulse.at)
    long = format_duration(timedelta(seconds=age // timedelta(seconds=1)))
    if not pulse.is_late(patient.now(), patient.settings.cycle.interval):
        yield good(f"{pulse.holder} wrote last, {long} ago")
    else:
        yield warning(
            f"no controller has written for {long} (the last one was {pulse.holder})",
            "see whether it runs; its log says what it waits for",
        )


def _role(url: str) -> Iterator[Finding]:
    found = own_rights(url)
    if found.missing:
        more = f" and {len(found.missing) - _NAMED} more" if len(found.missing) > _NAMED else ""
        yield fault(
            f"the controller cannot write as role {found.role}, which lacks {', '.join(found.missing[:_NAMED])}{more}",
            f"run what `quarantine db grants --writer {found.role}` prints, as the owner; or use the writer's URL here",
        )
    elif found.rewrites:
        yield warning(
            f"role {found.role} could change or remove decisions, so the trail is only as good as its password",
            "connect as a writer of its own, see `quarantine db grants`",
        )
    else:
        yield good(f"role {found.role} may append decisions, and can neither change nor remove one")
