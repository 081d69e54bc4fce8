"""Procedures: what people have run on a machine. A reset, a reboot, a burn-in, the vendor's bug report."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from quarantine.core.document import Metadata, Model, Text
from quarantine.core.units import Duration

LONGEST_OUTPUT = 500


class JobTemplate(Model):
    """A Kubernetes Job. The controller pins it to the node, lets it tolerate our taint alone, and bounds its time."""

    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "quarantine"
    pod: dict[str, Any] = Field(
        description="The pod's spec, as Kubernetes has it (v1 PodSpec). It says neither nodeName nor nodeSelector, "
        "affinity or tolerations; `{node}`, `{case}` and `{run}` in the values of env and args stand for what they say."
    )
    tries: int = Field(default=1, strict=True, ge=1, le=5, description="How often its pod may fail before the Job has.")

    @model_validator(mode="after")
    def _a_pod(self) -> Self:
        containers = self.pod.get("containers")
        if not isinstance(containers, list) or not containers or not all(isinstance(c, dict) for c in containers):
            raise ValueError("pod must be a PodSpec with containers")
        ours = {"nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"} & self.pod.keys()
        if ours:
            raise ValueError(f"pod must not say {', '.join(sorted(ours))}: the controller pins it to the node")
        if self.pod.get("restartPolicy", "Never") != "Never":
            raise ValueError("restartPolicy must be Never, or left out: how often it is tried is said by tries")
        return self


class ProcedureSpec(Model):
    """Give either a job, which runs on the node, or a command, which runs where the controller does."""

    description: Text = Field(description="For people: what it does, and what its success proves.")
    timeout: Duration = Field(default=timedelta(hours=1), description="When it is taken to have failed.")
    job: JobTemplate | None = None
    command: tuple[Text, ...] | None = Field(
        default=None,
        min_length=1,
        description="A program and its arguments, run without a shell where the controller runs. `{node}`, `{case}`, "
        "`{run}`, `{provider_id}` and `{system_uuid}` stand for what they say. Success is exit code 0. What it prints "
        "is kept, cut to a few lines.",
    )
    output: Annotated[str, Field(max_length=LONGEST_OUTPUT)] = Field(
        default="",
        description="Where it puts what it found, for the ticket: text with the same placeholders, such as "
        "`s3://evidence/{case}/{run}/`.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.job is None) == (self.command is None):
            raise ValueError("give either job or command")
        return self


class Procedure(Model):
    """A document of kind Procedure."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Procedure"]
    metadata: Metadata
    spec: ProcedureSpec
