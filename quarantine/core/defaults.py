"""Defaults for all policies, and named thresholds: composition without templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from quarantine.core.document import Metadata, Model, Name, Text
from quarantine.core.model import Mode, Severity
from quarantine.core.response import Breaker, Correlation, Grace, Response
from quarantine.core.units import Number, Share


class TriggerDefaults(Model):
    """What a trigger has where it does not say."""

    tolerate: Share | None = None
    coverage: Share | None = None


class RecoveryDefaults(Model):
    """What a recovery has where it does not say."""

    coverage: Share | None = None


class PolicyDefaults(Model):
    """What a policy has where it does not say. Of a mapping, each field by itself."""

    owner: Text | None = None
    severity: Severity | None = None
    mode: Mode | None = None
    trigger: TriggerDefaults | None = None
    grace: Grace | None = None
    recovery: RecoveryDefaults | None = None
    breaker: Breaker | None = None
    correlation: Correlation | None = None
    response: Response | None = None


class DefaultsSpec(Model):
    """What all policies have in common."""

    policy: PolicyDefaults = PolicyDefaults()
    severities: dict[Severity, PolicyDefaults] = Field(
        default_factory=dict, description="The same for policies of one severity; goes before `policy`."
    )
    thresholds: dict[Name, Number] = Field(
        default_factory=dict, description="Numbers with names; a policy writes the name where it wants the number."
    )

    @model_validator(mode="after")
    def _chosen_by(self) -> Self:
        for severity, given in self.severities.items():
            if given.severity is not None:
                raise ValueError(f"severities: what is given to {severity} policies cannot say their severity")
        return self


class Defaults(Model):
    """A document of kind Defaults; there is at most one."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Defaults"]
    metadata: Metadata
    spec: DefaultsSpec


def with_defaults(spec: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's `spec` as it is written in the file, completed by what a Defaults gives, as written.

    Given for a severity, it goes before what is given for all: complete by that first. A policy without a recovery or
    a correlation gets the default of the latter only: a recovery is a policy's word.
    """
    out = dict(spec)
    for key, value in defaults.items():
        if key == "recovery" and key not in spec:
            continue
        own = spec.get(key)
        if key not in spec:
            out[key] = value
        elif isinstance(value, Mapping) and isinstance(own, Mapping):
            given = _beside(own, value) if key == "response" else value
            out[key] = {**given, **own}
    return out


_OF_A_MACHINE_OUT = frozenset({"cordon", "drain", "evidence", "ticket", "ladder", "repeat"})


def _beside(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a response that is given, what can stand beside a policy's own words, which it must not contradict."""
    without: set[str] = set()
    if own.get("taint") is False:
        without |= _OF_A_MACHINE_OUT
    if "ticket" in own:
        without.add("ladder")
    if "ladder" in own:
        without.add("ticket")
    return {key: value for key, value in given.items() if key not in without}
