"""Where machines are reported: targets by name, and which provider has which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from quarantine.core.document import Name
from quarantine.settings.group import Group, Text


class Target(Group):
    """A ticket system: its kind, and the kind's own options, which are for the kind to judge."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    kind: Text

    @property
    def options(self) -> Mapping[str, object]:
        """All but the kind."""
        return dict(self.model_extra or {})


class Tickets(Group):
    """Where machines are reported, and replacements asked for."""

    kind: Literal["none", "directory"] = Field(
        default="none",
        description="`directory`: each ticket is a file, for another program or a person to pick up. A short form for "
        "the one target `directory` of that kind, as the default.",
    )
    directory: Path | None = Field(default=None, description="Where those files go.")
    targets: dict[Name, Target] = Field(
        default_factory=dict,
        repr=False,
        description="Ticket systems by name, each with its `kind` and the options of that kind, see "
        "[tickets](tickets/README.md); in the environment a JSON object.",
    )
    providers: dict[str, str] = Field(
        default_factory=dict,
        description="Of the fleet file's providers, which target takes their tickets; in the environment a JSON "
        "object.",
    )
    default: str | None = Field(default=None, description="The target of providers that are not named there.")
    assets: Path | None = Field(
        default=None, description="A CSV or YAML file with what providers call their machines: serial numbers, racks."
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.kind == "directory") != (self.directory is not None):
            raise ValueError("kind: directory and the directory go together; give both or neither")
        if self.directory is not None and (self.targets or self.providers or self.default):
            raise ValueError(
                "kind: directory is short for one target; beside others write it as `targets: {directory: {kind: "
                "directory, directory: …}}`"
            )
        if self.targets and not self.providers and self.default is None:
            raise ValueError("no provider has any of the targets; name one as the default, or give providers")
        for who, target in (("default", self.default), *((f"provider {p!r}", t) for p, t in self.providers.items())):
            if target is not None and target not in self.targets:
                there = ", ".join(sorted(self.targets)) or "none"
                raise ValueError(f"{who} has the target {target!r}, which is not there; there are {there}")
        return self

    @property
    def chosen(self) -> Mapping[str, Target]:
        """The targets by name, whichever way they were written."""
        if self.directory is None:
            return self.targets
        return {"directory": Target(kind="directory", directory=str(self.directory))}

    @property
    def usual(self) -> str | None:
        """The default target, whichever way it was written."""
        return self.default if self.directory is None else "directory"
