"""Ticket systems by kind, found as entry points, and which of them a provider's tickets go to.

A kind is an entry point of the group `quarantine.tickets`: a callable `connect(options, context)` that returns what
implements `ports.Tickets`, and raises UsageError where the options are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from quarantine.adapters.tickets.letter import Letter, letter
from quarantine.core.errors import TicketsRefused, UsageError
from quarantine.core.letters import CaseReport
from quarantine.ports import Tickets

GROUP = "quarantine.tickets"


@dataclass(frozen=True)
class Context:
    """What a ticket system may need beside its own options."""

    cluster: str
    now: Callable[[], datetime]  # aware, UTC
    folder: Path | None  # where it may keep files of its own; None: nowhere
    name: str  # the target's
    letter: Callable[[CaseReport], Letter] = letter


Connect = Callable[[Mapping[str, object], Context], Tickets]


def connect(kind: str, options: Mapping[str, object], context: Context) -> Tickets:
    """The target as its kind makes it. Only this kind's code is loaded.

    Raises UsageError where there is no such kind, where it cannot be loaded, and where the options are wrong.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in found:
        there = ", ".join(sorted(found)) or "none"
        raise UsageError(f"ticket target {context.name}: there is no kind {kind!r}; installed kinds: {there}")
    tickets: Tickets = _loaded(found[kind], context.name)(options, context)
    return tickets


def _loaded(entry: EntryPoint, target: str) -> Connect:
    try:
        made: Connect = entry.load()
    except Exception as error:  # a third party's module may fail in any way
        raise UsageError(
            f"ticket target {target}: its kind {entry.name!r} ({entry.value}) could not be loaded "
            f"({type(error).__name__}); repair or remove the package that brings it"
        ) from error
    return made


@dataclass(frozen=True, slots=True)
class ManyDesks:
    """Implements `ports.Desks` over several targets."""

    targets: Mapping[str, Tickets]  # by name
    providers: Mapping[str, str] = field(default_factory=dict)  # provider to target
    default: str | None = None  # the target of providers that are not named

    def __post_init__(self) -> None:
        """Raises UsageError where a target is named that is not there."""
        named = [(f"provider {provider}", target) for provider, target in self.providers.items()]
        if self.default is not None:
            named.append(("the default", self.default))
        for who, target in named:
            if target not in self.targets:
                raise UsageError(f"{who} has the ticket target {target!r}, which is not there; {self._there()}")

    def of(self, provider: str) -> tuple[str, Tickets] | None:
        """The provider's target, else the default one."""
        target = self.providers.get(provider, self.default)
        return None if target is None else (target, self.targets[target])

    def named(self, target: str) -> Tickets:
        """The target a ticket was filed with, whichever the provider has now. Raises TicketsRefused."""
        if target not in self.targets:
            raise TicketsRefused(
                f"there is no ticket target {target!r} any more; {self._there()}: write it back into the settings' "
                "tickets, or follow its tickets by hand"
            )
        return self.targets[target]

    def _there(self) -> str:
        return f"there are {', '.join(sorted(self.targets)) or 'none'}"


def only(target: str, tickets: Tickets) -> ManyDesks:
    """This one for every provider."""
    return ManyDesks({target: tickets}, default=target)
