"""Defaults for all policies, and named thresholds: composition without templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

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


class Defaults(Model):
    """A document of kind Defaults; there is at most one."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Defaults"]
    metadata: Metadata
    spec: DefaultsSpec


def with_defaults(spec: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's `spec` as it is written in the file, completed by `spec.policy` of the Defaults as written.

    A policy without a recovery or a correlation gets the default of the latter only: a recovery is a policy's word.
    """
    out = dict(spec)
    for key, value in defaults.items():
        if key == "recovery" and key not in spec:
            continue
        own = spec.get(key)
        if key not in spec:
            out[key] = value
        elif isinstance(value, Mapping) and isinstance(own, Mapping):
            out[key] = {**value, **own}
    return out
