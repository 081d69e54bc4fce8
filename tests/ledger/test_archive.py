"""Everything ever decided about a node, a machine or a GPU: across names and clusters, complete and nothing else's."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device, DeviceKind, Machine
from quarantine.core.record.subjects import SubjectKind, machine_key
from quarantine.ledger import trail
from quarantine.ledger.archive import SqlArchive, open_archive
from quarantine.ledger.engine import reading
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import NOW, SECOND, now, quarantined

MINUTE = timedelta(minutes=1)
GPU = "GPU-0a1b2c3d"


@pytest.fixture
def archive(url: str) -> Iterator[SqlArchive]:
    with open_archive(url) as opened:
        yield opened


def machine(letter: str, uid: str, gpus: tuple[str, ...] = ()) -> Machine:
    return Machine(uid, f"provider://{letter}", f"system-{letter}", gpus=gpus)


def waived(node: str, of: Machine | None, at: datetime) -> Decision:
    """On a machine without a case."""
    until = at + timedelta(hours=1)
    return Decision(at, Kind.DECIDED, Action.WAIVE, "keep it", "a person (cli)", node=node, machine=of, until=until)


def refused(node: str, at: datetime) -> Decision:
    """On a node's name alone."""
    return Decision(at, Kind.DECIDED, Action.ANSWER, "not done", "a person (cli)", node=node)


def taken_out(node: str, of: Machine, at: datetime, case: str, device: Device | None = None) -> Decision:
    made = quarantined(at=at, effects=(Effect.MARK, Effect.TICKET))
    return replace(made, node=node, machine=of, case=case, device=device or made.device)


def done(node: str, at: datetime, case: str, of: Machine | None = None) -> Decision:
    """An outcome; older ones tell no machine."""
    fields = {"node": node, "machine": of, "case": case, "effect": Effect.MARK}
    return Decision(at, Kind.DONE, Action.QUARANTINE, "marked", "controller 0.1.0", **fields)  # type: ignore[arg-type]


def moved(action: Action, node: str, of: Machine, at: datetime, case: str) -> Decision:
    """The case's machine is another, another one's object, or better known."""
    return Decision(at, Kind.DECIDED, action, "it is", "controller 0.1.0", node=node, machine=of, case=case)


def over(node: str, at: datetime, case: str) -> Decision:
    reason, by = "put back", "a person (cli)"
    return Decision(at, Kind.DECIDED, Action.RELEASE, reason, by, node=node, case=case, phase=Phase.RELEASED)


def record(url: str, cluster: str, taken: Sequence[Decision]) -> None:
    with open_ledger(url, cluster, now=now) as ledger:
        ledger.record(ledger.take_term("pod"), taken)


def rows(archive: SqlArchive, name: str) -> list[tuple[str, int]]:
    return [(filed.cluster, filed.row.seq) for filed in archive.history(name)]


def test_a_machine_is_found_under_each_of_its_names_wherever_it_was(url: str, archive: SqlArchive) -> None:
    a, b = machine("a", "uid-1"), machine("b", "uid-3")
    again, elsewhere = replace(a, node_uid="uid-2"), replace(a, node_uid="uid-9")
    east = [
        taken_out("node-1", a, NOW, "q-1"),
        waived("node-2", b, NOW),
        moved(Action.FOLLOW, "node-1", again, NOW + MINUTE, "q-1"),
        over("node-1", NOW + 2 * MINUTE, "q-1"),
        waived("node-1", b, NOW + 9 * MINUTE),  # another machine has the name by now
    ]
    record(url, "east", east)
    record(url, "west", [waived("node-9", elsewhere, NOW + 5 * MINUTE)])
    expected = [("east", 1), ("east", 3), ("east", 4), ("west", 1)]
    for name in ("system-a", "provider://a", "system-uuid:system-a", "uid-1", "uid-2", "uid-9"):
        assert rows(archive, name) == expected, name
    assert rows(archive, "node-1") == [("east", 1), ("east", 3), ("east", 4), ("east", 5)]
    assert rows(archive, "system-b") == [("east", 2), ("east", 5)]
    assert archive.clusters() == ("east", "west")


def test_sightings_tell_every_name_and_where(url: str, archive: SqlArchive) -> None:
    record(url, "east", [waived("node-1", machine("a", "uid-1", (GPU,)), NOW)])
    record(url, "west", [waived("node-9", machine("a", "uid-9"), NOW + MINUTE)])
    of_hardware = {(one.cluster, one.kind, one.value, one.node) for one in archive.sightings("system-a")}
    assert of_hardware == {
        ("east", SubjectKind.NODE, "node-1", "node-1"),
        ("east", SubjectKind.NODE_UID, "uid-1", "node-1"),
        ("east", SubjectKind.PROVIDER_ID, "provider://a", "node-1"),
        ("east", SubjectKind.SYSTEM_UUID, "system-a", "node-1"),
        ("east", SubjectKind.GPU, GPU, "node-1"),
        ("west", SubjectKind.NODE, "node-9", "node-9"),
        ("west", SubjectKind.NODE_UID, "uid-9", "node-9"),
        ("west", SubjectKind.PROVIDER_ID, "provider://a", "node-9"),
        ("west", SubjectKind.SYSTEM_UUID, "system-a", "node-9"),
    }
    assert archive.sightings("node-1") == archive.sightings("system-a"), "of a node what was behind it, too"
    assert [(one.node, one.machine) for one in archive.sightings(GPU)] == [("node-1", "system-uuid:system-a")]
    first = archive.sightings("uid-9")[0]
    assert (first.first_seq, first.last_seq, first.first_at, first.last_at) == (1, 1, NOW, NOW)


def test_what_tells_no_machine_is_of_the_one_that_its_case_or_node_had(url: str, archive: SqlArchive) -> None:
    a, b = machine("a", "uid-1"), machine("b", "uid-2")
    record(
        url,
        "east",
        [
            refused("node-1", NOW),  # of nobody knows which machine
            taken_out("node-1", a, NOW, "q-1"),
            done("node-1", NOW + SECOND, "q-1"),
            over("node-1", NOW + MINUTE, "q-1"),
            refused("node-1", NOW + 2 * MINUTE),
            waived("node-1", b, NOW + 3 * MINUTE),
            refused("node-1", NOW + 4 * MINUTE),
        ],
    )
    assert [seq for _, seq in rows(archive, "system-a")] == [2, 3, 4, 5]
    assert [seq for _, seq in rows(archive, "system-b")] == [6, 7]
    assert [seq for _, seq in rows(archive, "node-1")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_machine_that_was_exchanged_in_place_keeps_its_own_part_of_the_case(url: str, archive: SqlArchive) -> None:
    """The Node object, and so its uid, stays what it was; so does what the provider calls the place."""
    a, b = machine("a", "uid-1"), replace(machine("b", "uid-1"), provider_id="provider://a")
    record(
        url,
        "east",
        [
            taken_out("node-1", a, NOW, "q-1"),
            done("node-1", NOW + SECOND, "q-1"),
            moved(Action.SWAP, "node-1", b, NOW + MINUTE, "q-1"),
            done("node-1", NOW + 2 * MINUTE, "q-1", b),
            over("node-1", NOW + 3 * MINUTE, "q-1"),
        ],
    )
    assert [seq for _, seq in rows(archive, "system-a")] == [1, 2, 3], "that it was exchanged is the last of it"
    assert [seq for _, seq in rows(archive, "system-b")] == [3, 4, 5]
    for name in ("uid-1", "provider://a"):
        assert [seq for _, seq in rows(archive, name)] == [1, 2, 3, 4, 5], name


def test_a_gpu_is_followed_from_machine_to_machine(url: str, archive: SqlArchive) -> None:
    a, b = machine("a", "uid-1"), machine("b", "uid-2")
    link = Device(DeviceKind.NVLINK, f"{GPU}/7", "3")
    stray = replace(taken_out("", a, NOW, ""), node="gone", machine=None, case=None, phase=None, effects=())
    record(
        url,
        "east",
        [
            taken_out("node-1", a, NOW, "q-1", Device(DeviceKind.GPU, GPU, "3")),
            done("node-1", NOW + SECOND, "q-1", a),  # a Node object tells no GPUs
            moved(Action.IDENTIFY, "node-1", replace(a, gpus=("GPU-x", GPU)), NOW + MINUTE, "q-1"),
            over("node-1", NOW + 2 * MINUTE, "q-1"),
            moved(Action.IDENTIFY, "node-1", replace(a, gpus=("GPU-x",)), NOW + 3 * MINUTE, "q-1"),
            waived("node-1", replace(a, gpus=("GPU-x",)), NOW + 4 * MINUTE),
            waived("node-2", replace(b, gpus=(GPU,)), NOW + 5 * MINUTE),
            waived("node-2", b, NOW + 6 * MINUTE),
            replace(stray, device=link, at=NOW + 7 * MINUTE, kind=Kind.HELD),
            replace(stray, device=Device(DeviceKind.GPU, f"{GPU}e"), at=NOW + 8 * MINUTE, kind=Kind.HELD),
        ],
    )
    found = [("east", seq) for seq in (1, 2, 3, 4, 7, 8, 9)]
    for name in (GPU, GPU.upper(), GPU.lower()):
        assert rows(archive, name) == found, name


def test_a_gpu_leaves_with_its_machine(url: str, archive: SqlArchive) -> None:
    """What comes in its place, behind the same Node object, tells no GPUs at first."""
    a, b = machine("a", "uid-1", (GPU,)), machine("b", "uid-1")
    record(
        url,
        "east",
        [
            taken_out("node-1", a, NOW, "q-1"),
            moved(Action.SWAP, "node-1", b, NOW + MINUTE, "q-1"),
            over("node-1", NOW + 2 * MINUTE, "q-1"),
            waived("node-1", b, NOW + 3 * MINUTE),
        ],
    )
    assert rows(archive, GPU) == [("east", 1), ("east", 2)]


def test_a_name_that_nobody_knows_has_no_history(archive: SqlArchive) -> None:
    for name in ("node-1", "", "%", "GPU-", "a\\b", "x" * 9000, "\x00", "\ud800"):
        assert list(archive.history(name)) == []
        assert archive.sightings(name) == ()


def test_names_that_no_index_holds_whole_are_found(url: str, archive: SqlArchive) -> None:
    long, other = "n" * 5000, "n" * 4999
    record(url, "east", [waived(long, machine("a" * 900, "u" * 900), NOW), waived(other, machine("b", "v"), NOW)])
    record(url, "west", [waived("back\\slash\x00", machine("c", "w"), NOW)])
    assert rows(archive, long) == rows(archive, f"system-{'a' * 900}") == rows(archive, "u" * 900) == [("east", 1)]
    assert rows(archive, "back\\slash\x00") == [("west", 1)]
    assert archive.sightings("back\\slash\x00")[-1].node == "back\\slash\x00"


def test_clusters_are_merged_by_time_and_a_trail_keeps_its_order(url: str, archive: SqlArchive) -> None:
    a = machine("a", "uid-1")
    back = [NOW, NOW + 5 * MINUTE, NOW + 2 * MINUTE]  # the second controller's clock was behind
    record(url, "east", [waived("node-1", a, at) for at in back])
    record(url, "west", [waived("node-1", a, NOW + minutes * MINUTE) for minutes in (1, 3, 6)])
    in_order = [("east", 1), ("west", 1), ("west", 2), ("east", 2), ("east", 3), ("west", 3)]
    assert rows(archive, "system-a") == rows(archive, "node-1") == in_order


def test_a_long_history_is_streamed(url: str, archive: SqlArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "PAGE", 50)
    a = machine("a", "uid-1")
    long = replace(waived("node-1", a, NOW), reason="x" * 20_000)
    with open_ledger(url, "east", now=now) as ledger:
        term = ledger.take_term("pod")
        for _ in range(6):
            ledger.record(term, [long] * 100)
    next(iter(archive.history("system-a")))  # what is made once
    tracemalloc.start()
    try:
        count = sum(1 for _ in archive.history("system-a"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 600
    assert peak < 6_000_000, f"{peak} bytes: the 600 texts alone are 12,000,000"


# --- Any history ------------------------------------------------------------------------------------------------------

# A step: what happens, on which node, with which machine behind it; a Node object is made again with each machine.
STEP = st.tuples(
    st.sampled_from(["waive", "ask", "open", "done", "end", "swap", "follow"]), st.integers(0, 2), st.integers(0, 2)
)
HISTORIES = st.lists(st.tuples(st.integers(0, 1), STEP), max_size=40)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=HISTORIES)
def test_nothing_is_missing_or_too_much(engine: Engine, steps: list[tuple[int, tuple[str, int, int]]]) -> None:
    trails, told = lived(steps, f"t{next(_number)}")
    before = {}
    for place, taken in trails.items():
        ledger = SqlLedger(engine, place, now=now)
        term = ledger.take_term("pod")
        with reading(engine) as connection:
            before[place] = trail.head_of(connection, place).seq
        ledger.record(term, taken)
    archive = SqlArchive(engine)
    for name, expected in told.items():
        found = list(archive.history(name))
        assert [(one.cluster, one.row.seq - before[one.cluster]) for one in found] == expected, name
        assert [one.row.decision for one in found] == [trails[place][seq - 1] for place, seq in expected]


_number = iter(range(10**9))


def lived(
    steps: Sequence[tuple[int, tuple[str, int, int]]], run: str
) -> tuple[dict[str, list[Decision]], dict[str, list[tuple[str, int]]]]:
    """The trails, and by name what is about it: told while it is lived, not found afterwards.

    `run` is in every name, so that one database serves for all examples.
    """
    trails: dict[str, list[Decision]] = {"east": [], "west": []}
    told: dict[str, list[tuple[str, int]]] = {}
    behind: dict[tuple[str, str], Machine] = {}  # by node: what was told of last
    cases: dict[tuple[str, str], str] = {}
    for minute, (where, (what, number, letter)) in enumerate(steps):
        place, node, at = list(trails)[where], f"{run}-node-{number}", NOW + minute * MINUTE
        own = Machine(f"{node}-{place}-{letter}", "", f"{run}-system-{letter}", "", (f"GPU-{run}-{letter}",))
        case, known = cases.get((place, node)), behind.get((place, node))
        subjects: list[Machine] = []
        made: Decision | None = None
        if what == "waive" and case is None:
            made, subjects = waived(node, own, at), [own]
        elif what == "ask":
            made, subjects = refused(node, at), [known] if known else []
        elif what == "open" and case is None:
            case = f"q-{run}-{minute}"
            made, subjects = taken_out(node, own, at, case, Device(DeviceKind.NODE, "")), [own]
            cases[place, node] = case
        elif what == "done" and case is not None and known is not None:
            made, subjects = done(node, at, case), [known]
        elif what == "end" and case is not None and known is not None:
            made, subjects = over(node, at, case), [known]
            del cases[place, node]
        elif what in ("swap", "follow") and case is not None and known is not None:
            if what == "follow":
                own = replace(known, node_uid=own.node_uid)
            action = Action.SWAP if what == "swap" else Action.FOLLOW
            made, subjects = moved(action, node, own, at, case), [known, own]
        if made is None:
            continue
        if made.machine is not None:
            behind[place, node] = made.machine
        trails[place].append(made)
        about = {node, *(name for one in subjects for name in (machine_key(one), one.system_uuid, one.gpus[0]))}
        for name in about:
            told.setdefault(name, []).append((place, len(trails[place])))
    return trails, told
