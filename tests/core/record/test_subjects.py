"""By what names a machine is known."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.marks import same_machine
from quarantine.core.model import Machine
from quarantine.core.record.subjects import SubjectKind, machine_key, names

NIL = "00000000-0000-0000-0000-000000000000"
BODIES = [Machine(*told) for told in product(["u1", "u2"], ["", "a", "b"], ["", "sys-a", "sys-b", NIL])]
PAIRS = list(product(BODIES, BODIES))
machines = st.builds(
    Machine,
    st.sampled_from(["u1", "a"]),
    st.sampled_from(["", "a", "G1"]),
    st.sampled_from(["", "sys-a", NIL]),
    gpus=st.lists(st.sampled_from(["G1", "G2"])).map(tuple),
)


def test_the_strongest_name_is_the_key() -> None:
    assert machine_key(Machine("u", "acme://1", "sys")) == "system-uuid:sys"
    assert machine_key(Machine("u", "acme://1")) == "provider-id:acme://1"
    assert machine_key(Machine("u")) == "node-uid:u"
    assert machine_key(Machine("")) == ""


def test_a_uuid_that_no_maker_set_is_no_name() -> None:
    """Many boards tell the same one."""
    for unset in (NIL, NIL.replace("0", "F"), "03000200-0400-0500-0006-000700080009"):
        found = Machine("u", "acme://1", unset)
        assert machine_key(found) == "provider-id:acme://1"
        assert all(kind is not SubjectKind.SYSTEM_UUID for kind, _ in names(found))


def test_records_of_one_key_are_of_one_machine() -> None:
    alike = [(now, then) for now, then in PAIRS if machine_key(now) == machine_key(then)]
    assert len(alike) > len(BODIES)
    assert all(same_machine(now, then) for now, then in alike)


def test_records_of_one_machine_that_tell_the_same_names_have_one_key() -> None:
    """But for a Node object whose machine tells another UUID, or another provider's id: a key cannot say that."""
    found = 0
    for now, then in told_pairs():
        both = tells(now) == tells(then) and same_machine(now, then)
        renamed = now.node_uid == then.node_uid and hardware(now) != hardware(then)
        if both and not renamed:
            found += 1
            assert machine_key(now) == machine_key(then), (now, then)
    assert found > len(BODIES)


def test_records_of_one_machine_have_a_name_in_common() -> None:
    """So whoever looks for one name, and then for the others that were told with it, finds both."""
    for now, then in told_pairs():
        assert not same_machine(now, then) or set(names(now)) & set(names(then)), (now, then)


def told_pairs() -> list[tuple[Machine, Machine]]:
    """Without those that tell the UUID that no maker set."""
    return [(now, then) for now, then in PAIRS if NIL not in (now.system_uuid, then.system_uuid)]


def tells(machine: Machine) -> tuple[bool, bool]:
    return (machine.system_uuid != "", machine.provider_id != "")


def hardware(machine: Machine) -> tuple[str, str]:
    return (machine.system_uuid, machine.provider_id)


@given(machine=machines)
@settings(deadline=None)
def test_every_name_is_there_once(machine: Machine) -> None:
    found = names(machine)
    values = [value for _, value in found]
    assert len(set(values)) == len(values)
    assert "" not in values
    assert set(machine.gpus) <= set(values)
    key = machine_key(machine)
    assert key.partition(":")[2] in values
