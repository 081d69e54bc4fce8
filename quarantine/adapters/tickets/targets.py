"""Ticket systems by kind, found as entry points, and which of them a provider's tickets go to.

A kind is an entry point of the group `quarantine.tickets`: a callable `connect(options, context)` that returns what
implements `ports.Tickets`, and raises UsageError or pydantic's ValidationError where the options are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quarantine.adapters.tickets.letter import Letter, Letters, letter, page
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.prepared import AssetMap, Prepared
from quarantine.adapters.tickets.record import TicketRecord
from quarantine.adapters.tickets.render import Templates
from quarantine.core.errors import QuarantineError, TicketsRefused, UsageError
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.ports import Tickets

GROUP = "quarantine.tickets"
_PORT = ("answerable", "settles", "find", "open", "read", "update")
_SAID = 300  # characters of a complaint that a kind has made


@dataclass(frozen=True)
class Context:
    """What a ticket system may need beside its own options."""

    cluster: str
    now: Callable[[], datetime]  # aware, UTC
    folder: Path | None  # where it may keep files of its own; None: nowhere
    name: str  # the target's
    letter: Callable[[CaseReport], Letter] = letter
    page: Callable[[TicketRecord], str] = page  # of the directory's tickets


Connect = Callable[[Mapping[str, object], Context], Tickets]


class Common(BaseModel):
    """The options that every kind has: they are not its own."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    templates: Path | None = None  # a folder; what is not in it is the shipped one
    # Ours, of `core.letters.Fault.category`, to the provider's.
    categories: dict[Literal["GPU", "NVLink", "InfiniBand", "node"], str] = Field(default_factory=dict)


def target(kind: str, options: Mapping[str, object], context: Context, assets: AssetMap | None = None) -> Tickets:
    """A target as the settings have it: its kind's, with the options that every kind has. Raises as `connect`."""
    try:
        common = Common.model_validate(options)
    except ValidationError as error:
        raise UsageError(_complaint(error, kind, context.name)) from None
    letters = None
    if common.templates is not None:
        try:
            letters = Letters(Templates(common.templates), context.name)
        except UsageError as error:
            raise UsageError(f"tickets.targets.{context.name}.templates: {error}") from error
        context = replace(context, letter=letters.letter, page=letters.page)
    own = {name: value for name, value in options.items() if name not in Common.model_fields}
    categories = {str(ours): theirs for ours, theirs in common.categories.items()}
    return Prepared(connect(kind, own, context), categories, letters, assets)


def connect(kind: str, options: Mapping[str, object], context: Context) -> Tickets:
    """The target as its kind makes it of its own options. Only this kind's code is loaded.

    Raises UsageError where there is no such kind, where it cannot be loaded, and where the options are wrong.
    """
    make = _loaded(_found(kind, context.name), context.name)
    try:
        made = make(options, context)
    except ValidationError as error:
        raise UsageError(_complaint(error, kind, context.name)) from None  # its own text may repeat a secret
    except QuarantineError:
        raise
    except Exception as error:  # a third party's code may fail in any way
        raise UsageError(
            f"ticket target {context.name}: its kind {kind!r} could not make it of these options "
            f"({type(error).__name__}); look at its documentation"
        ) from error
    lacking = [name for name in _PORT if not hasattr(made, name)]
    if lacking:
        raise UsageError(
            f"ticket target {context.name}: what its kind {kind!r} made has no {', '.join(lacking)}; repair the "
            "package that brings it (quarantine.testing.ticket_contract says whether it is right)"
        )
    return made


def _found(kind: str, name: str) -> EntryPoint:
    installed = entry_points(group=GROUP)
    found = {entry.value: entry for entry in installed if entry.name == kind}
    if not found:
        there = ", ".join(sorted({entry.name for entry in installed})) or "none (install quarantine anew)"
        raise UsageError(f"ticket target {name}: there is no kind {kind!r}; installed kinds: {there}")
    if len(found) > 1:
        raise UsageError(
            f"ticket target {name}: several packages bring a kind {kind!r} ({', '.join(sorted(found))}); remove all "
            "but one"
        )
    return next(iter(found.values()))


def _loaded(entry: EntryPoint, name: str) -> Connect:
    try:
        made: Connect = entry.load()
    except Exception as error:  # a third party's module may fail in any way
        raise UsageError(
            f"ticket target {name}: its kind {entry.name!r} ({entry.value}) could not be loaded "
            f"({type(error).__name__}); repair or remove the package that brings it"
        ) from error
    return made


def _complaint(error: ValidationError, kind: str, name: str) -> str:
    """The first finding as one sentence, and how many more there are. It repeats no value."""
    findings = error.errors(include_url=False, include_input=False)
    place = ".".join(["tickets", "targets", name, *(str(p) for p in findings[0]["loc"] if p != "[key]")])
    more = f" ({len(findings) - 1} more after this one)" if len(findings) > 1 else ""
    return f"{one_line(place)}{_what(findings[0], kind)}{more}"


def _what(finding: Any, kind: str) -> str:
    match finding["type"]:
        case "missing":
            return f" is missing: the kind {kind!r} needs it"
        case "extra_forbidden":
            return f" is no option of the kind {kind!r}; look at its page for what it is called"
        case "value_error":
            said = str(finding["ctx"]["error"])
        case _:
            said = str(finding["msg"]).replace("Input should be", "must be")
    return f": {shorten(one_line(said[:1].lower() + said[1:]), _SAID)}"


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

    def names(self) -> tuple[str, ...]:
        """All targets, in the order of the settings."""
        return tuple(self.targets)

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
