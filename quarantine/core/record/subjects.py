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


# What a board tells whose maker set none: SMBIOS has all zeros and all ones for it, the last is a vendor's default.
# Many machines tell the same, so it is no name.
_UNSET = frozenset(
    {
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "03000200-0400-0500-0006-000700080009",
    }
)


def machine_key(machine: Machine) -> str:
    """One name for a machine, the same under every node name and in every cluster where its hardware tells.

    The system UUID, else the provider's id, else the Node object's uid: the order in which `marks.same_machine` asks.
    Two records of one key are of the same machine. Two records of one machine have one key where both tell the same
    names. They have not where one of them tells its UUID and the other does not, or another one on the same Node
    object: a key is made of one record, and `same_machine` looks at two. Then `names` has one that both tell.
    """
    for kind, value in (
        (SubjectKind.SYSTEM_UUID, _system_uuid(machine)),
        (SubjectKind.PROVIDER_ID, machine.provider_id),
        (SubjectKind.NODE_UID, machine.node_uid),
    ):
        if value:
            return f"{kind}:{value}"
    return ""


def names(machine: Machine) -> tuple[tuple[SubjectKind, str], ...]:
    """Every name of the hardware once, without those that it does not tell."""
    known = (
        (SubjectKind.NODE_UID, machine.node_uid),
        (SubjectKind.PROVIDER_ID, machine.provider_id),
        (SubjectKind.SYSTEM_UUID, _system_uuid(machine)),
        *((SubjectKind.GPU, gpu) for gpu in machine.gpus),
    )
    kinds: dict[str, SubjectKind] = {}
    for kind, value in known:
        if value:
            kinds.setdefault(value, kind)
    return tuple((kind, value) for value, kind in kinds.items())


def _system_uuid(machine: Machine) -> str:
    return "" if machine.system_uuid.lower() in _UNSET else machine.system_uuid
