"""What follows from a finding, and what may stand in its way."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from quarantine.core.document import Model, Name
from quarantine.core.units import Count, Duration, Share


class Grace(Model):
    """How long what is found is not acted on after a machine or its driver starts: links train, counters reset."""

    boot: Duration | None = Field(
        default=None,
        description="After a boot, as the fleet's uptime signal tells; the fleet must name one.",
    )
    driver: Duration | None = Field(
        default=None,
        description="After the driver was loaded: the heartbeat of the source (energy since then) fell back.",
    )


class Escalation(Model):
    """Single findings are watched only; the nth on one machine within a time is acted on."""

    findings: int = Field(strict=True, ge=2, le=100, description="Each ends by its recovery before the next counts.")
    within: Duration

    @model_validator(mode="after")
    def _remembered(self) -> Self:
        if self.within.days >= 28:
            raise ValueError("within may be 27d at most: ended cases are remembered for 28d")
        return self


class Breaker(Model):
    """How much of what it covers a policy may find bad before it is the policy that is suspect (invariant 6)."""

    max_share: Share = Field(default=0.1, description="Of the devices that it can see.")


class Correlation(Model):
    """When machines that share something fail together, that is the suspect and not they (invariant 7)."""

    by: tuple[Name, ...] = Field(min_length=1, description="Names of the fleet's topology labels.")
    machines: Count = Field(default=3, description="So many of one group, and more than their share of the fleet.")
    within: Duration = Field(description="Findings that began within this time of one another count together.")
    settle: Duration | None = Field(default=None, description="How long a new finding waits for others to join it.")


class Response(Model):
    """What is done about a bad verdict, in enforce mode."""

    taint: StrictBool = Field(
        default=True, description="`false`: the finding is shown (status, explain), and no machine is taken out for it."
    )
    cordon: StrictBool = True
    drain: Literal["never"] = Field(default="never", description="Pods that run are left alone.")
    ticket: Literal["none", "report"] = "none"
    notify: StrictBool = True
    release: Literal["by-hand"] = Field(
        default="by-hand", description="A machine that was taken out comes back by a person's word."
    )

    @model_validator(mode="after")
    def _nothing_to_report(self) -> Self:
        if not self.taint and (self.ticket != "none" or ("cordon" in self.model_fields_set and self.cordon)):
            raise ValueError("taint: false takes no machine out, so there is nothing to cordon and no ticket to file")
        return self
