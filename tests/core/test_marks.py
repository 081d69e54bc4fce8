"""What is written on a node and taken away again: exactly ours, whatever else others wrote, and whenever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Phase
from quarantine.core.fleet import GUARDS
from quarantine.core.marks import (
    NodePatch,
    condition_of,
    mark,
    marked_since,
    phase_label,
    unmark,
    was_marked,
)
from quarantine.core.model import Node, Taint
from tests.core.world import MINUTE, NOW, node

PREFIX = "quarantine.gpu"
KEY = f"{PREFIX}/suspect"
SCALE, DISRUPT = GUARDS


def a_case(**changes: object) -> Case:
    case = Case("q-1", "node-1", node("node-1").machine, Phase.QUARANTINED, NOW, NOW, (), "t", "GPU 3 is hot")
    return replace(replace(case, out_since=NOW), **changes)  # type: ignore[arg-type]


def patched(before: Node, patch: NodePatch) -> Node:
    """The node as the API server has it after the patch."""
    return replace(
        before,
        taints=before.taints if patch.taints is None else patch.taints,
        unschedulable=before.unschedulable if patch.unschedulable is None else patch.unschedulable,
        labels=merged(before.labels, patch.labels),
        annotations=merged(before.annotations, patch.annotations),
        resource_version=str(int(before.resource_version) + 1),
    )


def merged(before: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **patch}.items() if value is not None}


def mark_of(before: Node, case: Case, cordon: bool = True, guards: Mapping[str, str] = GUARDS) -> NodePatch:
    return mark(before, case, prefix=PREFIX, reason=case.reason, cordon=cordon, phase=case.phase.value, guards=guards)


def marked(before: Node, case: Case, cordon: bool = True, guards: Mapping[str, str] = GUARDS) -> Node:
    return patched(before, mark_of(before, case, cordon, guards))


def cleaned(after: Node, case: Case) -> Node:
    patch = unmark(after, case, prefix=PREFIX)
    assert patch is not None
    return patched(after, patch)


def test_a_mark_says_who_why_since_when_and_what_it_added() -> None:
    assert marked(node("node-1"), a_case()).annotations == {
        f"{PREFIX}/case": "q-1",
        f"{PREFIX}/reason": "GPU 3 is hot",
        f"{PREFIX}/cordoned-by": "quarantine",
        f"{PREFIX}/since": "2026-11-29T12:00:00Z",
        f"{PREFIX}/guards": f"{SCALE}=true,{DISRUPT}=true",
        SCALE: "true",
        DISRUPT: "true",
    }


def test_a_guard_that_was_there_is_not_ours() -> None:
    before = node("node-1", annotations={SCALE: "true", DISRUPT: "false"})
    after = marked(before, a_case())
    assert f"{PREFIX}/guards" not in after.annotations
    assert (after.annotations[SCALE], after.annotations[DISRUPT]) == ("true", "false")
    assert cleaned(after, a_case()).annotations == before.annotations


def test_a_guard_of_ours_that_somebody_gave_another_value_is_theirs() -> None:
    after = marked(node("node-1"), a_case())
    theirs = replace(after, annotations={**after.annotations, SCALE: "false"})
    assert cleaned(theirs, a_case()).annotations == {SCALE: "false"}


def test_a_guard_that_the_fleet_file_names_no_more_is_taken_away_all_the_same() -> None:
    again = marked(marked(node("node-1"), a_case()), a_case(), guards={})
    assert again.annotations[SCALE] == "true"
    assert cleaned(again, a_case()).annotations == {}


def test_a_guards_value_may_hold_what_separates_guards() -> None:
    after = marked(node("node-1"), a_case(), guards={"a.io/x": "1,b.io/y=2 %", "c.io/z": ""})
    assert cleaned(after, a_case()).annotations == {}


def test_a_mark_that_is_put_back_leaves_the_cordon_as_it_is_and_its_date() -> None:
    stripped = replace(marked(node("node-1"), a_case()), taints=(), unschedulable=False)
    patch = mark_of(stripped, a_case(phase=Phase.DRAINING, phase_since=NOW + MINUTE))
    assert patch.unschedulable is None, "who uncordoned it is asked, and not fought"
    again = patched(stripped, patch)
    assert marked_since(again, PREFIX) == NOW
    assert again.annotations[f"{PREFIX}/cordoned-by"] == "quarantine", "a cordon that comes back is ours to take away"
    assert cleaned(replace(again, unschedulable=True), a_case()).unschedulable is False


def test_a_new_node_object_is_cordoned_and_marked_like_any_other() -> None:
    patch = mark_of(node("node-1"), a_case(phase=Phase.DRAINED))
    assert patch.unschedulable is True
    assert patch.labels == {f"{PREFIX}/phase": "drained"}


def test_what_an_earlier_case_added_and_left_is_taken_away_with_the_later_one() -> None:
    earlier, later = a_case(), a_case(id="q-2", out_since=NOW + timedelta(hours=1))
    both = marked(marked(node("node-1"), earlier), later)
    assert was_marked(both, later, PREFIX)
    assert marked_since(both, PREFIX) == NOW + timedelta(hours=1)
    assert unmark(both, earlier, prefix=PREFIX) is None, "a late end of an earlier case touches nothing"
    after = cleaned(both, later)
    assert (after.taints, after.annotations, after.unschedulable) == ((), {}, False)


def test_a_persons_waiver_on_the_node_outlives_the_mark() -> None:
    waived = {f"{PREFIX}/waived-until": "2026-12-01T00:00:00Z"}
    assert cleaned(marked(node("node-1", annotations=waived), a_case()), a_case()).annotations == waived


@pytest.mark.parametrize("said", ["", "soon", "2026-11-29", "2026-11-29T12:00:00", "🙂"])
def test_a_date_that_cannot_be_read_is_none(said: str) -> None:
    assert marked_since(node("node-1", annotations={f"{PREFIX}/since": said}), PREFIX) is None


def test_the_phase_is_shown_by_its_label_alone() -> None:
    draining = a_case(phase=Phase.DRAINING)
    on = marked(node("node-1"), a_case())
    patch = phase_label(on, draining, PREFIX)
    assert patch is not None
    assert (patch.uid, patch.resource_version) == (on.machine.node_uid, on.resource_version)
    assert (patch.taints, patch.unschedulable, patch.annotations) == (None, None, {})
    assert patch.labels == {f"{PREFIX}/phase": "draining"}
    assert phase_label(patched(on, patch), draining, PREFIX) is None, "it is right already"
    assert phase_label(node("node-1"), draining, PREFIX) is None, "not where our taint is not"
    assert phase_label(on, a_case(id="q-2", phase=Phase.DRAINING), PREFIX) is None, "nor that of another case"
    assert phase_label(on, a_case(phase=Phase.RELEASED), PREFIX) is None


def test_the_condition_says_suspect_for_as_long_as_the_node_is_marked() -> None:
    on = node("node-1")
    said = condition_of(a_case(phase=Phase.PROBATION), on)
    assert (said.node, said.uid, said.status) == ("node-1", "uid-node-1", True)
    assert (said.reason, said.message) == ("Quarantined", "case q-1: GPU 3 is hot")
    over = condition_of(a_case(phase=Phase.RELEASED), on)
    assert (over.status, over.reason, over.message) == (False, "Released", "case q-1 is released")
    assert condition_of(a_case(phase=Phase.DISMISSED), on).reason == "Dismissed"
    assert len(condition_of(a_case(reason="x" * 5000), on).message) == 1024


texts = st.text(max_size=6)
keys = st.sampled_from(["a.io/x", "b.io/y", SCALE, DISRUPT])
foreign_taints = st.builds(
    Taint,
    st.sampled_from(["a.io/x", "b.io/y", "node.kubernetes.io/unschedulable", "nvidia.com/gpu"]),
    texts,
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    st.sampled_from([None, "2026-11-29T11:00:00Z"]),
)


def unique(taints: list[Taint]) -> tuple[Taint, ...]:
    """The server refuses two with the same key and effect."""
    return tuple({(t.key, t.effect): t for t in taints}.values())


@given(
    found=st.dictionaries(keys, texts),
    guards=st.dictionaries(keys, texts),
    later=st.dictionaries(keys, texts),
    taints=st.lists(foreign_taints, max_size=4),
    cordoned=st.booleans(),
    cordon=st.booleans(),
)
def test_the_end_of_a_case_leaves_the_node_as_it_was(
    found: dict[str, str],
    guards: dict[str, str],
    later: dict[str, str],
    taints: list[Taint],
    cordoned: bool,
    cordon: bool,
) -> None:
    before = node("node-1", annotations=found, taints=unique(taints), unschedulable=cordoned)
    on = marked(before, a_case(), cordon, guards)
    on = marked(replace(on, taints=()), a_case(), cordon, later)  # a program rewrote the list, and it was put back
    after = cleaned(replace(on, taints=(*before.taints, *on.taints)), a_case())
    assert after.annotations == before.annotations
    assert after.labels == before.labels
    assert after.taints == before.taints
    assert after.unschedulable == before.unschedulable


# --- Beside another writer --------------------------------------------------------------------------------------------


@dataclass
class Server:
    """The API server, as far as a conditional write of one node goes."""

    node: Node
    conditional: bool = True

    def rewrite(self, taints: tuple[Taint, ...]) -> None:
        version = str(int(self.node.resource_version) + 1)
        self.node = replace(self.node, taints=taints, resource_version=version)

    def patch(self, patch: NodePatch) -> bool:
        if self.conditional and patch.resource_version != self.node.resource_version:
            return False
        self.node = patched(self.node, patch)
        return True


def foreign(of: Node) -> tuple[Taint, ...]:
    return tuple(t for t in of.taints if t.key != KEY)


others = st.one_of(
    st.tuples(st.just("add"), foreign_taints),
    st.tuples(st.just("remove"), st.integers(0, 5)),
    st.tuples(st.just("reorder"), st.randoms(use_true_random=False)),
    st.tuples(st.just("rewrite"), st.lists(foreign_taints, max_size=4)),  # without ours, as a program does
)
ours = st.tuples(st.sampled_from(["look", "mark", "unmark", "phase"]), st.booleans())


def by_another(server: Server, what: str, how: object) -> None:
    taints = list(server.node.taints)
    if isinstance(how, Taint):
        taints.append(how)
    elif isinstance(how, int):
        del taints[how : how + 1]
    elif isinstance(how, list):
        taints = how
    else:
        how.shuffle(taints)  # type: ignore[attr-defined]
    server.rewrite(unique(taints))


def by_us(server: Server, known: Node, what: str, cordon: bool) -> Node:
    """What the controller knows of the node afterwards: refused, it looks again; written, it knows its own write."""
    patch: NodePatch | None = None
    if what == "mark":
        patch = mark_of(known, a_case(), cordon)
    elif what == "unmark":
        patch = unmark(known, a_case(), prefix=PREFIX)
    elif what == "phase":
        patch = phase_label(known, a_case(phase=Phase.DRAINING), PREFIX)
    if patch is not None:
        before = foreign(server.node)
        server.patch(patch)
        assert foreign(server.node) == before, f"our {what} lost or changed a taint that is not ours"
    return server.node if patch is not None or what == "look" else known


@given(steps=st.lists(st.one_of(others, ours), max_size=14))
@settings(max_examples=150)
def test_no_interleaving_with_another_writer_loses_a_foreign_taint_by_our_hand(
    steps: list[tuple[str, object]],
) -> None:
    server = Server(node("node-1"))
    known = server.node
    for what, how in steps:
        if isinstance(how, bool):
            known = by_us(server, known, what, how)
        else:
            by_another(server, what, how)


def test_without_the_condition_it_would_be_lost() -> None:
    server = Server(node("node-1"), conditional=False)
    known = server.node
    server.rewrite((Taint("a.io/x", "v"),))
    with pytest.raises(AssertionError, match="our mark lost"):
        by_us(server, known, "mark", True)
