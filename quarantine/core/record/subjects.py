"""By what names a machine is known, so that its history is found under any of them."""

from __future__ import annotations

from enum import StrEnum

from quarantine.core.model import Machine


class SubjectKind(StrEnum):
    """What sort of name it is."""

    NODE = "node"
    NODE_UID = "node-uid"
    PROVIDER_ID = "provider-id"
    SYSTEM_UUID = "system-uuid"
    GPU = "gpu"


def machine_key(machine: Machine) -> str:
    """One name for a machine, the same under every node name and in every cluster where its hardware tells.

    The system UUID, else the provider's id, else the Node object's uid: the order in which `marks.same_machine` asks.
    """
    for kind, value in (
        (SubjectKind.SYSTEM_UUID, machine.system_uuid),
        (SubjectKind.PROVIDER_ID, machine.provider_id),
        (SubjectKind.NODE_UID, machine.node_uid),
    ):
        if value:
            return f"{kind}:{value}"
    return ""


def names(machine: Machine) -> tuple[tuple[SubjectKind, str], ...]:
    """Every name of the hardware, without those that it does not tell."""
    known = (
        (SubjectKind.NODE_UID, machine.node_uid),
        (SubjectKind.PROVIDER_ID, machine.provider_id),
        (SubjectKind.SYSTEM_UUID, machine.system_uuid),
        *((SubjectKind.GPU, gpu) for gpu in machine.gpus),
    )
    return tuple((kind, value) for kind, value in known if value)
