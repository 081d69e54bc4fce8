"""What people say on the command line and by annotations, through the whole controller, to the cluster and back."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.worlds import World

FOREVER = "2099-01-01T00:00:00Z"
OURS = "quarantine.gpu/"


def status(cluster: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.quarantine("status", "--output", "json").stdout)
    return found


def say(cluster: World, *arguments: str) -> None:
    """Record it, and let the next cycle decide."""
    result = cluster.quarantine(*arguments, "--reason", "people know better")
    assert result.exit_code == 0, result.output
    assert cluster.run_once().exit_code == 0


def annotate(cluster: World, node: str, **annotations: str | None) -> None:
    own = {f"{OURS}{key.replace('_', '-')}": value for key, value in annotations.items()}
    cluster.api.patch_merge("Node", node, {"metadata": {"annotations": own}})


def test_under_a_pause_what_is_found_is_held_until_it_is_over(cluster: World) -> None:
    hot = cluster.nodes[2]
    cluster.heat(hot)
    assert cluster.run_once(QUARANTINE_MODE="observe").exit_code == 0
    say(cluster, "pause")
    assert cluster.untouched()
    assert cluster.tickets() == []
    told = status(cluster)
    assert [(word["kind"], word["scope"], word["until"]) for word in told["words"]] == [("pause", "all", None)]
    assert [(case["node"], case["held_by"]) for case in told["cases"]] == [(hot, "paused")]
    assert "everything is paused by" in cluster.quarantine("status").stdout
    say(cluster, "resume")
    assert cluster.marked() == [hot]
    assert status(cluster)["words"] == []


def test_a_release_goes_on_under_a_pause_and_what_was_held_trickles_after_it(cluster: World) -> None:
    first, second = cluster.nodes[1], cluster.nodes[2]
    cluster.heat(first)
    assert cluster.run_once().exit_code == 0
    assert cluster.marked() == [first]
    cluster.heat(second)
    say(cluster, "pause", "gpu-hot", "--for", "1h")
    assert cluster.marked() == [first]
    say(cluster, "release", first)
    assert cluster.untouched()
    say(cluster, "resume", "gpu-hot")
    assert cluster.untouched(), "one went out within five minutes: this one waits its turn"
    assert [(case["node"], case["held_by"]) for case in status(cluster)["cases"]] == [(second, "trickle")]


def test_a_waiver_puts_a_machine_back_and_keeps_it_there(cluster: World) -> None:
    hot = cluster.nodes[3]
    cluster.heat(hot)
    assert cluster.run_once().exit_code == 0
    say(cluster, "waive", hot, "--for", "4h")
    assert cluster.run_once().exit_code == 0
    assert cluster.untouched()
    (word,) = status(cluster)["left_alone"]
    assert (word["node"], word["waiver"]) == (hot, True)
    assert f"{hot} stays in service until" in cluster.quarantine("explain", hot).stdout
    assert "waive" in [row["action"] for row in _trail(cluster, hot)]


def test_an_annotation_is_a_waiver_for_as_long_as_it_stands(cluster: World) -> None:
    hot = cluster.nodes[4]
    cluster.heat(hot)
    assert cluster.run_once().exit_code == 0
    annotate(cluster, hot, waived_until=FOREVER, waived_reason="the run ends tonight")
    for _ in range(2):
        assert cluster.run_once().exit_code == 0
    assert cluster.marked() == []
    left = cluster.api.get("Node", hot)["metadata"]["annotations"]
    assert {key for key in left if key.startswith(OURS)} == {f"{OURS}waived-until", f"{OURS}waived-reason"}
    assert "by its annotation: the run ends tonight" in cluster.quarantine("status").stdout
    annotate(cluster, hot, waived_until=None, waived_reason=None)
    assert cluster.run_once().exit_code == 0
    assert cluster.marked() == [hot]


def test_planned_work_suspends_judgement_on_what_its_selector_means(cluster: World) -> None:
    hot = cluster.nodes[5]
    cluster.heat(hot)
    assert cluster.run_once(QUARANTINE_MODE="observe").exit_code == 0
    say(cluster, "maintain", hot, "--for", "2h")
    assert cluster.untouched()
    assert [word["scope"] for word in status(cluster)["words"]] == [hot]
    say(cluster, "resume", hot)
    assert cluster.marked() == [hot]


def test_a_repaired_machine_goes_on_probation_and_its_label_says_so(cluster: World) -> None:
    node = cluster.nodes[6]
    assert cluster.run_once().exit_code == 0
    say(cluster, "open", node)
    say(cluster, "repaired", node)
    assert cluster.api.get("Node", node)["metadata"]["labels"][f"{OURS}phase"] == "probation"
    (case,) = status(cluster)["cases"]
    assert (case["phase"], case["by_person"]) == ("probation", True)


def test_a_request_that_cannot_be_done_is_answered(cluster: World) -> None:
    assert cluster.run_once().exit_code == 0
    say(cluster, "pause", "no-such-policy")
    told = status(cluster)
    assert (told["words"], told["requests"]) == ([], [])


def _trail(cluster: World, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.quarantine("explain", node, "--output", "json").stdout)["trail"]
    return found
