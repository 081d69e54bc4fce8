"""The ticket systems: each is asked for a ticket that cannot exist; none is filed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from quarantine.adapters.assets import Assets
from quarantine.adapters.tickets.prepared import Prepared
from quarantine.adapters.tickets.targets import Context, target
from quarantine.core.errors import QuarantineError, Unavailable
from quarantine.core.policy import Rules
from quarantine.core.tickets import Answerable
from quarantine.core.units import format_duration
from quarantine.doctor.finding import Finding, fault, good, note, unreachable, warning
from quarantine.doctor.patient import Patient
from quarantine.ports import Tickets
from quarantine.settings import Target

KEY = "quarantine-doctor-no-such-case"  # keys of ours begin with q-
_PATIENCE = timedelta(seconds=60)  # for all of them, asked at once; adapters have time-outs of their own


def check(patient: Patient) -> Iterator[Finding]:
    """Each target, and whether each provider has one."""
    tickets, rules = patient.settings.tickets, patient.known_rules()
    if not tickets.chosen:
        yield note("no ticket system is configured: machines are reported nowhere", "see docs/tickets")
        return
    assets = None
    if tickets.assets is not None:
        try:
            assets = Assets(tickets.assets)
            yield good(f"the list of machines {tickets.assets} can be read")
        except QuarantineError as error:
            yield fault(str(error))
    running = [_Running(patient, name, each, assets) for name, each in tickets.chosen.items()]
    until = time.monotonic() + _PATIENCE.total_seconds()
    for one in running:
        yield one.found(until)
    if rules is not None:
        yield from _providers(patient, rules)


class _Running:
    """One target, asked on a thread that does not keep the process: a third party's code may hang."""

    def __init__(self, patient: Patient, name: str, given: Target, assets: Assets | None) -> None:
        self._where = f"target {name} ({given.kind})"
        self._answer: queue.SimpleQueue[Finding] = queue.SimpleQueue()
        ask = partial(_target, patient, name, given, assets)
        threading.Thread(target=lambda: self._answer.put(ask()), name=f"target-{name}", daemon=True).start()

    def found(self, until: float) -> Finding:
        """What came of it by then, on the monotonic clock."""
        try:
            return self._answer.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return unreachable(
                f"{self._where}: it did not answer within {format_duration(_PATIENCE)}", "see what is slow there"
            )


def _target(patient: Patient, name: str, given: Target, assets: Assets | None) -> Finding:
    """One of them; never raises."""
    where = f"target {name} ({given.kind})"
    try:
        made = target(given.kind, given.options, Context(patient.settings.cluster, patient.now, None, name), assets)
        if made.answerable is Answerable.BLIND:
            return _blind(where, made)
        found = made.find(KEY)
    except Unavailable as error:
        return unreachable(f"{where}: {error}")
    except QuarantineError as error:
        return fault(f"{where}: {error}", f"see the page of the kind {given.kind} in docs/tickets")
    except Exception as error:  # noqa: BLE001  (a third party's code may fail in any way)
        return fault(f"{where}: its code failed ({type(error).__name__})", "report it to who maintains this kind")
    if found:
        return fault(
            f"{where}: it finds tickets for a key that nobody has used: what is looked up there is not to be trusted",
            "see what it searches by, on the page of this kind in docs/tickets",
        )
    return good(f"{where}: it answers, and can be searched")


def _blind(where: str, made: Tickets) -> Finding:
    """What cannot be searched is tried where it offers to be. Raises as `find`."""
    inner = made.tickets if isinstance(made, Prepared) else made
    tried = getattr(inner, "check", None)
    if not callable(tried):
        return note(f"{where}: its options are sound; whether it is reached shows when the first report is sent")
    tried()
    return good(f"{where}: it is reached, and lets us in")


def _providers(patient: Patient, rules: Rules) -> Iterator[Finding]:
    tickets = patient.settings.tickets
    known = [provider.name for provider in rules.fleet.providers]
    known = list(dict.fromkeys([*known, *(pool.provider for pool in rules.fleet.pools)]))
    if lacking := [name for name in known if tickets.providers.get(name, tickets.usual) is None]:
        yield warning(
            f"no target takes the tickets of: {', '.join(lacking)}", "name one in tickets.providers, or tickets.default"
        )
    if strange := [name for name in tickets.providers if name not in known]:
        yield warning(
            f"tickets.providers names what is no provider of the fleet file: {', '.join(strange)}",
            f"the fleet has {', '.join(known)}",
        )
    used = {tickets.providers.get(name, tickets.usual) for name in known}
    if idle := [name for name in tickets.chosen if name not in used]:
        yield warning(
            f"no provider of the fleet uses: {', '.join(idle)}",
            "keep it while tickets of it are open, else remove it from tickets.targets",
        )
