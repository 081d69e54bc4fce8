"""What follows from a finding, and what may stand in its way."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from quarantine.core.case import Step
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


JOB, EXPORTER = "job", "exporter"  # what machines share that no label of theirs says


class Correlation(Model):
    """When machines that share something fail together, that is the suspect and not they (invariant 7)."""

    by: tuple[Name, ...] = Field(
        min_length=1,
        description="Names of the fleet's topology labels (a label that says the driver's version is one), `job` for "
        "machines on which one gang runs, and `exporter` for those that one exporter's metric is read from.",
    )
    machines: Count = Field(default=3, description="So many of one group, and more than their share of the fleet.")
    within: Duration = Field(description="Findings that began within this time of one another count together.")
    settle: Duration | None = Field(default=None, description="How long a new finding waits for others to join it.")


class Moment(StrEnum):
    """When what runs on a machine is asked to leave, the most patient first."""

    NEVER = "never"
    WHEN_IDLE = "when-idle"
    AFTER_CHECKPOINT = "after-checkpoint"
    ON_RESTART = "on-restart"
    NOW = "now"

    @property
    def rank(self) -> int:
        """0 for the most patient."""
        return list(Moment).index(self)


class Drain(Model):
    """When what runs on the machine is asked to leave. Evictions only: disruption budgets are respected."""

    when: Moment = Field(
        default=Moment.NEVER,
        description="`never`: what runs is left alone; the machine empties by itself. `when-idle`: once no training "
        "runs there. `after-checkpoint`: once the training that runs there has written one since the quarantine (see "
        "the fleet's `workloads`). `on-restart`: once the training is down or has started anew, in place too. `now`.",
    )
    deadline: Duration | None = Field(
        default=None,
        description="How long that moment is waited for. Left out: for ever; people are told after a day.",
    )
    then: Literal["hold", "now"] = Field(
        default="hold", description="When the deadline passes: `hold` tells a person and goes on waiting; `now` drains."
    )
    blocked: Duration = Field(
        default=timedelta(hours=1), description="How long disruption budgets may refuse before a person is told."
    )

    @model_validator(mode="after")
    def _something_to_wait_for(self) -> Self:
        if self.when in (Moment.NEVER, Moment.NOW) and (self.deadline is not None or "then" in self.model_fields_set):
            raise ValueError(f"when: {self.when} waits for nothing, so it has neither a deadline nor a then")
        if self.then == "now" and self.deadline is None:
            raise ValueError("then: now needs a deadline")
        return self


class LadderStep(Model):
    """One rung of the ladder of remedies."""

    do: Step = Field(
        description="`reset` and `reboot` run a procedure; `report` tells the provider, and may go out while jobs run; "
        "`replace` asks for another machine, once no training is left on this one."
    )
    by: Name | None = Field(default=None, description="The Procedure that resets or reboots.")
    after: Duration | None = Field(default=None, description="Not before the machine has been out for so long.")

    @model_validator(mode="after")
    def _by_what(self) -> Self:
        runs = self.do in (Step.RESET, Step.REBOOT)
        if runs and self.by is None:
            raise ValueError(f"do: {self.do} needs by, the name of a Procedure")
        if not runs and self.by is not None:
            raise ValueError(f"do: {self.do} runs no procedure, so it has no by")
        return self


class Approval(Model):
    """A person's yes before another machine is asked for."""

    by: Annotated[str, Field(pattern=r"^S[A-Z0-9]{2,20}$")] | None = Field(
        default=None,
        description="The id of a Slack user group, one of whom must say it there. Left out: any member of the "
        "workspace. Who may write to the ledger may always say it by the command line.",
    )
    within: Duration | None = Field(default=None, description="How long it is waited for. Left out: for ever.")
    then: Literal["hold", "replace"] = Field(
        default="hold",
        description="When nobody has answered by then: `hold` tells people and goes on waiting; `replace` asks for the "
        "machine all the same.",
    )

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.then == "replace" and self.within is None:
            raise ValueError("then: replace needs within")
        return self


class Repeat(Model):
    """A machine that comes back again and again is not worth another reset."""

    times: int = Field(strict=True, ge=1, le=50, description="So many quarantines of this machine before this one.")
    within: Duration = Field(description="At most 27d: ended cases are remembered for 28d.")

    @model_validator(mode="after")
    def _remembered(self) -> Self:
        if self.within.days >= 28:
            raise ValueError("within may be 27d at most: ended cases are remembered for 28d")
        return self


class Release(Model):
    """How a machine that was taken out comes back."""

    when: Literal["by-hand", "on-proof"] = Field(
        default="by-hand",
        description="`by-hand`: by a person's word. `on-proof`: after a remedy, or when every finding is good again "
        "under load and the provider was told nothing; in both cases after the probation, and the burn-in if there is "
        "one.",
    )
    probation: Duration = Field(
        default=timedelta(hours=1), description="How long nothing may be found bad before it is released."
    )
    burn_in: Name | None = Field(default=None, description="A Procedure that must succeed before it is released.")


def _short(field: str) -> BeforeValidator:
    """`drain: now` for `drain: {when: now}`."""

    def spell(value: Any) -> Any:
        return {field: value} if isinstance(value, str) else value

    return BeforeValidator(spell)


class Response(Model):
    """What is done about a bad verdict, in enforce mode."""

    taint: StrictBool = Field(
        default=True, description="`false`: the finding is shown (status, explain), and no machine is taken out for it."
    )
    cordon: StrictBool = True
    drain: Annotated[Drain, _short("when")] = Field(default=Drain(), description="A word, or a mapping: see Drain.")
    evidence: Name | None = Field(
        default=None,
        description="A Procedure that is run before the drain and before any remedy, such as the vendor's bug report.",
    )
    ticket: Literal["none", "report", "replace"] = Field(
        default="none", description="Short for a ladder of this one step."
    )
    ladder: tuple[LadderStep, ...] = Field(
        default=(),
        description="Remedies in the order in which they are tried: the next when one fails, or when the fault is back "
        "after it. A machine that was out before begins after the last rung that was tried for the same signal.",
    )
    repeat: Repeat | None = Field(
        default=None, description="A machine that was out so often goes to the last rung of the ladder at once."
    )
    approval: Approval | None = Field(
        default=None, description="Left out, another machine is asked for without asking people. `{}` asks anybody."
    )
    notify: StrictBool = True
    release: Annotated[Release, _short("when")] = Field(
        default=Release(), description="A word, or a mapping: see Release."
    )

    @property
    def steps(self) -> tuple[LadderStep, ...]:
        """The ladder, however it is written."""
        return self.ladder or (() if self.ticket == "none" else (LadderStep(do=Step(self.ticket)),))

    @property
    def procedures(self) -> tuple[str, ...]:
        """The names of the procedures that it needs."""
        named = (self.evidence, self.release.burn_in, *(step.by for step in self.ladder))
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @model_validator(mode="after")
    def _nothing_to_report(self) -> Self:
        if not self.taint and (self.ticket != "none" or ("cordon" in self.model_fields_set and self.cordon)):
            raise ValueError("taint: false takes no machine out, so there is nothing to cordon and no ticket to file")
        if not self.taint and (self.ladder or self.evidence or self.drain.when is not Moment.NEVER):
            raise ValueError("taint: false takes no machine out, so there is nothing to drain, to examine or to repair")
        if self.approval is not None and all(step.do is not Step.REPLACE for step in self.steps):
            raise ValueError("approval is of a swap, and no step of this policy asks for one (ticket: replace)")
        if self.approval is not None and self.approval.then == "replace" and not self.notify:
            raise ValueError("approval with then: replace needs notify: silence of people who were not told is no yes")
        if self.ladder and self.ticket != "none":
            raise ValueError("give either ticket or ladder: a ladder says itself when the provider is told")
        return self
