"""Which machine it is: told, followed, exchanged, and compared with what was sent away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Effect, HeldBy, Phase, Purpose, Run
from quarantine.core.decision import Action, Kind, RequestKind, State
from quarantine.core.letters import report
from quarantine.core.marks import unmark
from quarantine.core.model import Failed, Machine, Node, Sample, Verdict
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan
from quarantine.core.treatment import place, swap
from tests.core.world import FAILED, NOW, after, answers, ask, carried_out, fleet, hot, node, policy, rules, snapshot

MINUTE = timedelta(minutes=1)
EIGHT = tuple(f"GPU-node-3-{n}" for n in range(8))
OTHERS = tuple(f"GPU-new-{n}" for n in range(8))
BAD = "GPU-node-3-3"
RACK = {"gpu": "yes", "acme.io/rack": "r7"}
LAW = rules(
    policy(response={"ticket": "report", "release": "on-proof"}),
    inventory={"signal": "gpu.temperature"},
    place=["acme.io/rack", "acme.io/slot"],
)
LEFT_ALONE = rules(policy(response={"ticket": "none", "release": "on-proof"}), inventory={"signal": "gpu.temperature"})


class World:
    """One fleet over time. `cycle` plans, checks that planning again yields nothing, and carries out."""

    def __init__(self, law: Rules = LAW, *, slots: bool = True) -> None:
        self.law, self.now, self.state, self.slots = law, NOW, State(), slots
        self.nodes = {name: replace(n, gpus=8, labels=self.labels(name)) for name, n in fleet().items()}
        self.hardware: Mapping[str, tuple[str, ...]] | Failed = {}

    def phase(self) -> Phase:
        """Of node-3's case."""
        return self.case.phase

    def labels(self, name: str) -> dict[str, str]:
        """One rack, and each in a slot of its own."""
        return {**RACK, "acme.io/slot": name.rpartition("-")[2]} if self.slots else RACK

    def cycle(self, *bad: Sample, minutes: float = 1, done: bool = True, good: Sequence[Sample] = ()) -> Plan:
        self.now += timedelta(minutes=minutes)
        given_answers = {"gpu-hot": answers(self.nodes, *bad, good=good)}
        look = snapshot(self.nodes, state=self.state, now=self.now, given=given_answers)
        look = replace(look, hardware=self.hardware)
        made = plan(look, self.law)
        self.state = after(self.state, made)
        assert plan(replace(look, state=self.state), self.law).decisions == (), "planning again yields nothing new"
        if done:
            self.state, self.nodes = carried_out(self.state, self.nodes, self.now)
        return made

    def out(self, *gpus: str, law: Rules | None = None) -> Case:
        """node-3 quarantined for its GPU 3, marked, its hardware known, and the provider told."""
        self.law = law or self.law
        self.cycle(hot("node-3"))
        self.hardware = {"node-3": gpus or EIGHT}
        self.cycle()
        self.cycle()
        return self.case

    @property
    def case(self) -> Case:
        return next(case for case in self.state.cases.values() if case.node == "node-3")

    def becomes(self, machine: Machine, name: str = "node-3", at: datetime | None = None) -> None:
        """Another Node object stands under the name, without a mark."""
        bare = node(name, machine=machine, gpus=8, labels=self.labels(name))
        self.nodes = {**self.nodes, name: replace(bare, created_at=at)}

    def holds(self, by: HeldBy) -> list[str]:
        return [hold.reason for hold in self.state.holds.values() if hold.held_by is by]


def decided(made: Plan, action: Action) -> list[str]:
    return [d.reason for d in made.decisions if d.action is action and d.kind is Kind.DECIDED]


NEW = Machine("uid-new", "acme://new", "sys-new", "boot-new")


# --- What the machine is ----------------------------------------------------------------------------------------------


def test_what_a_marked_machine_is_made_of_is_recorded_once() -> None:
    world = World()
    world.cycle(hot("node-3"))
    world.hardware = {"node-3": EIGHT}
    told = decided(world.cycle(), Action.IDENTIFY)
    assert len(told) == 1
    assert "8 GPUs" in told[0]
    assert "rack=r7/slot=3" in told[0]
    assert world.case.machine.gpus == EIGHT
    assert world.case.machine.place == "rack=r7/slot=3"
    assert decided(world.cycle(), Action.IDENTIFY) == []


def test_labels_that_a_node_does_not_have_are_left_out_of_its_place() -> None:
    world = World(slots=False)
    world.cycle(hot("node-3"))
    world.cycle()
    assert world.case.machine.place == "rack=r7"


def test_a_gpu_that_fell_off_the_bus_stays_in_the_record() -> None:
    world = World(LEFT_ALONE)
    world.out()
    world.hardware = {"node-3": tuple(uuid for uuid in EIGHT if uuid != BAD)}
    assert world.cycle().decisions == ()
    assert world.case.machine.gpus == EIGHT


def test_a_machine_that_shows_its_gpus_one_by_one_is_recorded_until_all_are_there() -> None:
    world = World(LEFT_ALONE)
    world.out(*EIGHT[:3])
    assert world.case.machine.gpus == EIGHT[:3]
    world.hardware = {"node-3": EIGHT}
    world.cycle()
    assert world.case.machine.gpus == EIGHT
    world.hardware = {"node-3": (*EIGHT, "GPU-of-somebody-else")}
    assert world.cycle().decisions == (), "more than the node has: some are another machine's"


@pytest.mark.parametrize("unknown", [{}, {"node-3": ()}, FAILED])
def test_hardware_that_is_not_known_is_not_recorded(unknown: Mapping[str, tuple[str, ...]] | Failed) -> None:
    world = World(LEFT_ALONE)
    world.cycle(hot("node-3"))
    world.hardware = unknown
    assert decided(world.cycle(), Action.IDENTIFY) == []


def test_a_reboot_is_recorded_and_the_findings_stand() -> None:
    world = World()
    world.out()
    found = world.case.findings
    world.nodes["node-3"] = replace(world.nodes["node-3"], machine=replace(node("node-3").machine, boot_id="boot-2"))
    told = decided(world.cycle(), Action.IDENTIFY)
    assert told == ["node-3 was rebooted during the case, and what was found on it stands"]
    assert (world.case.boots, world.case.machine.boot_id, world.case.findings) == (("boot-node-3",), "boot-2", found)
    assert world.case.booted_at == world.now
    assert world.cycle().decisions == ()


def test_what_is_known_of_a_machine_goes_with_it_to_its_new_node_object() -> None:
    world = World(LEFT_ALONE)
    world.out()
    world.hardware = {}
    world.becomes(replace(node("node-3").machine, node_uid="uid-again", boot_id="boot-2"))
    assert decided(world.cycle(), Action.FOLLOW)
    assert (world.case.machine.node_uid, world.case.machine.gpus) == ("uid-again", EIGHT)
    assert world.case.boots == ("boot-node-3",)


# --- Exchanged --------------------------------------------------------------------------------------------------------


def test_another_machine_where_one_was_asked_for_is_marked_until_it_has_proven_itself() -> None:
    world = World()
    world.out()
    world.becomes(NEW)
    world.hardware = {}
    told = world.cycle(done=False)
    assert decided(told, Action.SWAP) == [
        "another machine is in the place of node-3 (system UUID sys-new; before: system UUID sys-node-3)"
    ]
    case = world.case
    assert (case.phase, case.sent_away and case.sent_away.gpus, case.swapped_at) == (Phase.SWAPPED, EIGHT, world.now)
    assert case.is_pending(Effect.MARK)
    assert world.cycle(minutes=30, done=False).decisions == (), "it waits for the mark, however long that takes"
    world.state, world.nodes = carried_out(world.state, world.nodes, world.now)
    world.hardware = {"node-3": OTHERS}
    assert decided(world.cycle(), Action.PROVE) == [
        "what is new in the place of node-3 is marked, and proves itself first"
    ]
    assert world.phase() is Phase.PROBATION
    assert world.case.machine.gpus == OTHERS


def test_it_is_not_taken_over_before_it_could_be_seen_whether_a_bad_gpu_came_back() -> None:
    world = World()
    world.out()
    world.becomes(NEW)
    world.hardware = {}
    world.cycle()
    for seen in ({}, FAILED, {"node-3": OTHERS[:5]}):
        world.hardware = seen
        world.cycle()
        assert world.phase() is Phase.SWAPPED
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    assert world.phase() is Phase.PROBATION


def test_where_the_fleet_has_no_inventory_nothing_is_waited_for() -> None:
    world = World(rules(policy(response={"ticket": "report"})))
    world.out()
    world.becomes(NEW)
    world.hardware = {}
    world.cycle()
    world.cycle()
    assert world.phase() is Phase.PROBATION


def test_another_machine_under_the_node_object_that_was_there_is_an_exchange() -> None:
    world = World(LEFT_ALONE)
    world.out()
    kept = world.nodes["node-3"]
    world.nodes["node-3"] = replace(kept, machine=replace(kept.machine, system_uuid="sys-new", boot_id="boot-new"))
    world.hardware = {}
    assert decided(world.cycle(), Action.SWAP)
    assert world.phase() is Phase.SWAPPED
    assert decided(world.cycle(), Action.SWAP) == []


def test_a_procedure_that_ran_on_what_left_is_lost() -> None:
    world = World()
    world.out()
    run = Run("q-1-reset-1", Purpose.RESET, "reset", world.now, world.now + timedelta(hours=1))
    world.state = replace(world.state, cases={**world.state.cases, world.case.id: replace(world.case, runs=(run,))})
    world.becomes(NEW)
    world.cycle(done=False)
    assert [run.outcome.value for run in world.case.runs] == ["lost"]


# --- A part of it -----------------------------------------------------------------------------------------------------

REPAIRED = tuple(sorted((*(uuid for uuid in EIGHT if uuid != BAD), "GPU-spare")))


def test_another_gpu_in_place_of_the_bad_one_is_an_exchange_where_one_was_asked_for() -> None:
    world = World()
    world.out()
    world.hardware = {"node-3": REPAIRED}
    told = decided(world.cycle(), Action.SWAP)
    assert told == ["GPU-node-3-3 of node-3 was found bad and is there no more; new is GPU-spare: a part was exchanged"]
    assert (world.case.machine.gpus, world.case.phase) == (REPAIRED, Phase.SWAPPED)
    world.cycle()
    assert world.phase() is Phase.PROBATION
    assert world.holds(HeldBy.SAME_MACHINE) == [], "the chassis is the same, as it should be"
    assert world.cycle().decisions == ()


@pytest.mark.parametrize(
    "seen",
    [
        tuple(uuid for uuid in EIGHT if uuid != BAD),  # off the bus
        (*(uuid for uuid in EIGHT if uuid != "GPU-node-3-5"), "GPU-spare"),  # another one was exchanged
        (*EIGHT, "GPU-spare"),  # looked back too far, or another machine's
        (*EIGHT[4:], "GPU-spare"),  # not all of them are seen yet
        (),
    ],
)
def test_nothing_else_is_an_exchanged_part(seen: tuple[str, ...]) -> None:
    world = World()
    world.out()
    world.hardware = {"node-3": seen}
    assert world.cycle().decisions == ()


def test_a_node_that_counts_only_the_gpus_that_are_left_shows_no_exchange() -> None:
    """GPU feature discovery counts what the driver sees: seven of seven is no new part."""
    world = World()
    world.out()
    world.nodes["node-3"] = replace(world.nodes["node-3"], gpus=7)
    world.hardware = {"node-3": tuple(uuid for uuid in EIGHT if uuid != BAD)}
    assert decided(world.cycle(), Action.SWAP) == []
    assert world.case.machine.gpus == EIGHT


def test_no_part_is_taken_to_be_exchanged_where_nobody_was_asked() -> None:
    world = World(LEFT_ALONE)
    world.out()
    world.hardware = {"node-3": REPAIRED}
    assert world.cycle().decisions == ()


# --- What came back ---------------------------------------------------------------------------------------------------


def test_the_bad_gpu_in_another_machine_is_told_and_does_not_get_further() -> None:
    world = World()
    world.out()
    world.becomes(NEW)
    world.hardware = {}
    world.cycle()
    world.hardware = {"node-3": (*OTHERS[:7], BAD)}
    world.cycle()
    assert world.phase() is Phase.SWAPPED
    assert world.holds(HeldBy.SAME_MACHINE) == [
        f"{BAD} that was found bad came back to node-3 in another machine; it is not put back in service by itself"
    ]
    assert "came back to node-3" in report(world.case, "lab", world.law, state=world.state).swap
    assert world.cycle(minutes=90).decisions == ()
    third = replace(NEW, node_uid="uid-3", system_uuid="sys-3", provider_id="acme://3")
    world.becomes(third)
    world.hardware = {}
    world.cycle()
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()
    assert world.phase() is Phase.PROBATION
    assert world.holds(HeldBy.SAME_MACHINE) == []


def test_a_bad_gpu_that_is_seen_only_on_probation_sends_the_machine_back() -> None:
    world = World()
    world.out()
    world.nodes["node-3"] = replace(world.nodes["node-3"], gpus=None)
    world.becomes(NEW)
    world.nodes["node-3"] = replace(world.nodes["node-3"], gpus=None)
    world.cycle()
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    assert world.phase() is Phase.PROBATION
    world.hardware = {"node-3": (*OTHERS, BAD)}
    told = world.cycle()
    assert decided(told, Action.PROVE) == [
        f"node-3 is no exchange: {BAD} that was found bad came back to node-3 in another machine"
    ]
    assert world.phase() is Phase.QUARANTINED
    for _ in range(5):
        world.cycle(minutes=60)
    assert world.case.open, "no metric ends it"
    assert world.phase() is not Phase.PROBATION


def test_a_person_who_says_that_it_is_repaired_outranks_what_came_back() -> None:
    world = World()
    world.out()
    world.becomes(NEW)
    world.hardware = {"node-3": (*OTHERS[:7], BAD)}
    world.cycle()
    world.cycle()
    assert world.holds(HeldBy.SAME_MACHINE)
    world.now += MINUTE
    asked = replace(ask(RequestKind.REPAIRED, "node-3"), at=world.now)
    look = snapshot(world.nodes, state=world.state, now=world.now, requests=[asked])
    world.state = after(world.state, plan(replace(look, hardware=world.hardware), world.law))
    assert world.phase() is Phase.PROBATION
    world.cycle()
    assert world.phase() is Phase.PROBATION
    assert world.holds(HeldBy.SAME_MACHINE) == []


def test_the_very_machine_that_was_sent_away_is_marked_and_gets_no_further() -> None:
    world = World()
    first = world.out().machine
    world.becomes(NEW)
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()
    assert world.phase() is Phase.PROBATION
    world.becomes(replace(first, node_uid="uid-again", gpus=(), place=""))
    world.hardware = {}
    told = world.cycle(done=False)
    assert "is the one that was sent away (system UUID sys-node-3)" in decided(told, Action.SWAP)[0]
    assert world.phase() is Phase.QUARANTINED
    assert world.case.is_pending(Effect.MARK), "it is marked, whatever it is"
    assert len(world.holds(HeldBy.SAME_MACHINE)) == 1
    world.state, world.nodes = carried_out(world.state, world.nodes, world.now)
    for _ in range(3):
        assert world.cycle().decisions == ()
    assert len(world.holds(HeldBy.SAME_MACHINE)) == 1


def test_a_machine_that_comes_back_unchanged_under_a_new_node_object_is_told() -> None:
    world = World()
    world.out()
    world.becomes(replace(node("node-3").machine, node_uid="uid-again", boot_id="boot-2"), at=world.now)
    world.cycle()
    assert decided(world.cycle(), Action.SWAP) == []
    assert world.holds(HeldBy.SAME_MACHINE) == [
        "the machine that came back to node-3 is the one that was sent away (system UUID sys-node-3); "
        "it is not put back in service by itself"
    ]
    assert world.cycle().decisions == ()


def test_what_was_sent_away_from_one_node_and_stands_under_another_name_is_told_there() -> None:
    world = World()
    first = world.out().machine
    world.becomes(NEW)
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()
    world.becomes(replace(first, node_uid="uid-99", gpus=(), place=""), name="node-99")
    world.nodes["node-99"] = replace(world.nodes["node-99"], addresses=("10.0.9.9",))
    world.cycle(hot("node-99"))
    world.cycle()
    case = next(case for case in world.state.cases.values() if case.node == "node-99")
    assert world.holds(HeldBy.SAME_MACHINE) == [
        f"node-99 is the machine that was sent away from node-3 (case {world.case.id}) (system UUID sys-node-3); "
        "it is not put back in service by itself"
    ]
    assert case.phase is Phase.QUARANTINED


def test_a_bad_gpu_that_turns_up_in_another_machine_under_a_case_is_told_there() -> None:
    world = World()
    world.out()
    world.cycle(hot("node-5", 1))
    world.hardware = {"node-3": EIGHT[:3] + EIGHT[4:], "node-5": (*(f"GPU-node-5-{n}" for n in range(7)), BAD)}
    world.cycle()
    assert world.holds(HeldBy.SAME_MACHINE) == [
        f"{BAD} that was found bad on node-3 (case {world.case.id}) is in node-5 now; "
        "it is not put back in service by itself"
    ]


def test_a_uuid_that_several_boards_have_in_common_tells_no_machine() -> None:
    world = World()
    world.out()
    unset = "03000200-0400-0500-0006-000700080009"
    world.becomes(replace(NEW, system_uuid=unset))
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()
    for name in ("node-7", "node-8"):
        known = world.nodes[name]
        world.nodes[name] = replace(known, machine=replace(known.machine, system_uuid=unset))
    sent = replace(world.case, sent_away=replace(NEW, system_uuid=unset, gpus=()))
    world.state = replace(world.state, cases={**world.state.cases, sent.id: sent})
    world.cycle()
    assert world.holds(HeldBy.SAME_MACHINE) == []


# --- The place --------------------------------------------------------------------------------------------------------


def swapped(world: World) -> None:
    """node-3's machine exchanged, and the new one on probation."""
    world.out()
    world.becomes(NEW)
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()


def fresh(slot: int, name: str = "node-3") -> Sample:
    """The new machine's GPU of that index is hot."""
    return replace(hot(name, slot), labels={"Hostname": name, "UUID": f"GPU-new-{slot}", "gpu": str(slot)})


def test_the_same_fault_in_the_same_place_on_another_machine_makes_the_place_the_suspect() -> None:
    world = World()
    swapped(world)
    assert world.phase() is Phase.PROBATION
    world.cycle(fresh(3), minutes=20)
    (told,) = world.holds(HeldBy.SAME_PLACE)
    assert told == (
        f"what is found bad on node-3 was found there on 2026-11-29 on another machine (case {world.case.id}): the "
        "place rack=r7/slot=3 is the suspect (its cable, optic, switch port or slot), and not the machine"
    )
    assert told in report(world.case, "lab", world.law, state=world.state).swap
    before = len(world.state.holds)
    world.cycle(fresh(3))
    world.cycle()
    assert len(world.holds(HeldBy.SAME_PLACE)) == 1
    assert len(world.state.holds) == before


def test_another_position_in_the_machine_is_another_fault() -> None:
    world = World()
    swapped(world)
    world.cycle(fresh(5), minutes=20)
    world.cycle(fresh(5))
    assert world.holds(HeldBy.SAME_PLACE) == []


def test_a_gpu_whose_index_is_not_known_is_in_no_place() -> None:
    world = World()
    swapped(world)
    unnumbered = replace(fresh(3), labels={"Hostname": "node-3", "UUID": "GPU-new-3"})
    world.cycle(unnumbered, minutes=20)
    world.cycle(unnumbered)
    assert world.holds(HeldBy.SAME_PLACE) == []


def test_the_same_machine_makes_no_suspect_of_its_place() -> None:
    world = World()
    world.out()
    world.cycle(hot("node-3"))
    assert world.holds(HeldBy.SAME_PLACE) == []


def test_the_place_is_known_again_under_another_node_name() -> None:
    world = World()
    swapped(world)
    labels = world.nodes["node-3"].labels
    third = replace(NEW, node_uid="uid-3", system_uuid="sys-3", provider_id="acme://3")
    world.nodes = {name: n for name, n in world.nodes.items() if name != "node-3"}
    world.nodes["node-30"] = replace(node("node-30", machine=third, labels=labels), gpus=8)
    world.cycle(replace(fresh(3, "node-30"), labels={"Hostname": "node-30", "UUID": "GPU-x", "gpu": "3"}))
    world.cycle()
    (told,) = world.holds(HeldBy.SAME_PLACE)
    assert "what is found bad on node-30" in told


def test_a_rack_alone_is_no_place() -> None:
    """Where the slot is not told, other machines of the rack would be taken for the same place."""
    world = World(slots=False)
    swapped(world)
    world.cycle(hot("node-5"), minutes=20)
    world.cycle(hot("node-5"))
    assert world.holds(HeldBy.SAME_PLACE) == []
    world.cycle(fresh(3), minutes=20)
    (told,) = world.holds(HeldBy.SAME_PLACE)
    assert "the place node-3 is the suspect" in told


def test_what_was_told_of_a_case_that_is_over_is_lifted() -> None:
    world = World()
    swapped(world)
    world.cycle(fresh(3), minutes=20)
    asked = replace(ask(RequestKind.RELEASE, "node-3"), at=world.now)
    look = snapshot(world.nodes, state=world.state, now=world.now + MINUTE, requests=[asked])
    world.state = after(world.state, plan(look, world.law))
    assert not world.case.open
    world.cycle(minutes=2)
    assert world.holds(HeldBy.SAME_PLACE) == []


# --- Always -----------------------------------------------------------------------------------------------------------

some = st.sets(st.sampled_from([*EIGHT, *OTHERS, "GPU-spare"]), max_size=8).map(lambda seen: tuple(sorted(seen)))
whole = st.sampled_from([EIGHT, OTHERS, REPAIRED, (*OTHERS[:7], BAD)])
sights: st.SearchStrategy[Any] = st.just(FAILED) | st.just({}) | st.builds(lambda seen: {"node-3": seen}, some | whole)
mostly = st.sampled_from([True, True, True, False])
bodies = st.sampled_from(["stays"] * 4 + ["boots", "new", "newer", "back", "gone"])


@given(history=st.lists(st.tuples(bodies, sights, mostly, st.integers(1, 200)), min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_whatever_is_seen_no_machine_is_released_with_the_bad_gpu_and_no_swap_comes_of_missing_data(
    history: list[tuple[str, Mapping[str, tuple[str, ...]] | Failed, bool, int]],
) -> None:
    world = World()
    world.out()
    for number, (body, seen, done, minutes) in enumerate(history):
        before, case = world.nodes.get("node-3"), world.case
        move(world, body, number)
        world.hardware = seen
        made = world.cycle(minutes=minutes, done=done)
        present = set() if isinstance(seen, Failed) else set(seen.get("node-3", ()))
        if decided(made, Action.SWAP) and before is not None and "node-3" in world.nodes:
            now = world.nodes["node-3"].machine
            another = now.system_uuid != case.machine.system_uuid
            part = len(present) == 8 and BAD not in present and present - set(case.machine.gpus)
            assert another or part
        for decision in made.decisions:
            if decision.phase is Phase.RELEASED:
                assert BAD not in present
                assert BAD not in world.case.machine.gpus or world.case.sent_away is None
        if not world.case.open:
            break


def move(world: World, body: str, number: int) -> None:
    """What happens to node-3's machine."""
    if body == "gone":
        world.nodes = {name: n for name, n in world.nodes.items() if name != "node-3"}
        return
    fresh_machine = {
        "new": replace(NEW, node_uid=f"uid-{number}"),
        "newer": Machine(f"uid-{number}", f"acme://{number}", f"sys-{number}", "b"),
        "back": replace(node("node-3").machine, node_uid=f"uid-{number}"),
    }
    if body in fresh_machine:
        world.becomes(fresh_machine[body], at=world.now)
    elif body == "boots" and "node-3" in world.nodes:
        known = world.nodes["node-3"]
        world.nodes = {**world.nodes, "node-3": replace(known, machine=replace(known.machine, boot_id=f"b-{number}"))}


def test_a_mark_of_the_case_is_taken_off_the_new_machine_at_the_end() -> None:
    world = World()
    swapped(world)
    marked: Node = world.nodes["node-3"]
    patch = unmark(marked, world.case, prefix="quarantine.gpu")
    assert patch is not None
    assert patch.taints == ()
    assert swap.remarks(world.state, world.case) == ""


# --- What is told of a machine, and stays -----------------------------------------------------------------------------


def test_a_machine_that_has_not_booted_since_is_the_same_whatever_its_firmware_tells() -> None:
    """A kubelet of another version tells the UUID in another order of bytes."""
    world = World(LEFT_ALONE)
    world.out()
    kept = world.nodes["node-3"]
    world.nodes["node-3"] = replace(kept, machine=replace(kept.machine, system_uuid="3-edon-sys"))
    made = world.cycle()
    assert decided(made, Action.SWAP) == []
    assert "tells another system UUID, 3-edon-sys, and has not booted since" in decided(made, Action.IDENTIFY)[0]
    world.nodes["node-3"] = replace(kept, machine=replace(world.case.machine, boot_id="boot-2"))
    assert decided(world.cycle(), Action.SWAP) == [], "it is known by that one from now on"
    assert (world.phase(), world.case.boots) == (Phase.QUARANTINED, ("boot-node-3",))


def test_nodes_that_share_the_boot_of_their_host_are_not_one_machine() -> None:
    here, there = node("node-3").machine, replace(node("node-4").machine, boot_id="boot-node-3")
    assert not place.same_chassis(here, there)


def came_back() -> World:
    """The GPU that was sent away is in the machine that came for it."""
    world = World()
    world.out()
    world.becomes(NEW)
    world.hardware = {"node-3": (*OTHERS[1:], BAD)}
    world.cycle()
    world.cycle()
    assert world.holds(HeldBy.SAME_MACHINE)
    return world


def test_what_was_sent_away_as_bad_stays_so_whatever_is_measured_on_it_later() -> None:
    world = came_back()
    for _ in range(70):
        world.cycle(good=[hot("node-3", value=60)])
        assert world.holds(HeldBy.SAME_MACHINE)
        assert world.phase() is Phase.SWAPPED
    assert world.case.findings[0].verdict is Verdict.GOOD


def test_what_recovers_in_a_plan_stood_as_bad_before_it() -> None:
    """Two GPUs are bad, one of them leaves, and the other is good again in the same plan: planned again, it is so."""
    world = World()
    world.cycle(hot("node-3", 3), hot("node-3", 5))
    world.hardware = {"node-3": EIGHT}
    world.cycle()
    world.cycle()
    world.hardware = {"node-3": REPAIRED}
    assert decided(world.cycle(good=[hot("node-3", 5, value=60)]), Action.SWAP) == []
    assert decided(world.cycle(), Action.SWAP) == [
        "GPU-node-3-3 of node-3 was found bad and is there no more; new is GPU-spare: a part was exchanged"
    ]


def test_a_machine_that_came_back_before_the_second_word_to_its_provider_did_so_after_the_first() -> None:
    late = {"ladder": [{"do": "report"}, {"do": "replace", "after": "1h"}]}
    world = World(rules(policy(response=late)))
    world.out()
    world.becomes(replace(node("node-3").machine, node_uid="uid-again"), at=world.now)
    world.cycle()
    world.cycle()
    told = world.holds(HeldBy.SAME_MACHINE)
    assert told
    look = world.cycle(minutes=120)
    assert look is not None
    assert world.holds(HeldBy.SAME_MACHINE) == told


def test_what_is_told_to_have_come_back_does_not_go_to_and_fro_once_it_looks_good() -> None:
    world = World(LEFT_ALONE)
    world.out()
    kept = world.nodes["node-3"]
    world.nodes["node-3"] = replace(kept, machine=replace(kept.machine, system_uuid="sys-new", boot_id="boot-new"))
    world.hardware = {"node-3": OTHERS}
    world.cycle()
    world.cycle()
    assert world.phase() is Phase.PROBATION
    world.hardware = {"node-3": (*OTHERS[1:], BAD)}
    for _ in range(3):
        world.cycle(good=[hot("node-3", value=60)])
        assert world.phase() is Phase.QUARANTINED
    assert world.holds(HeldBy.SAME_MACHINE)
