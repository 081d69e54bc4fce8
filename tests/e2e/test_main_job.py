"""The main job through the command line: a hot GPU is found, its node taken out, reported and asked for, once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.e2e.worlds import CHANNEL, TOKEN, World, uuid


def test_a_hot_gpu_is_taken_out_reported_and_asked_for_once(cluster: World) -> None:
    hot = cluster.nodes[3]
    cluster.api.patch_merge(
        "Node", hot, {"spec": {"taints": [{"key": "other.io/x", "value": "y", "effect": "PreferNoSchedule"}]}}
    )
    cluster.heat(hot)
    first = cluster.run_once()
    assert first.exit_code == 0, first.output
    assert cluster.marked() == [hot]
    keys = {taint["key"] for taint in cluster.taints(hot)}
    assert {"other.io/x", "quarantine.gpu/suspect"} <= keys, "foreign taints survive"
    node = cluster.api.get("Node", hot)
    assert node["metadata"]["labels"]["quarantine.gpu/phase"] == "quarantined"
    assert "is above 78 °C for 5m" in node["metadata"]["annotations"]["quarantine.gpu/reason"]
    [event] = cluster.api.list("Event")
    assert event["involvedObject"]["name"] == hot
    [ticket] = cluster.tickets()
    [message] = cluster.told
    case = node["metadata"]["annotations"]["quarantine.gpu/case"]
    assert ticket["key"] == case
    assert message.metadata is not None
    assert message.metadata["event_payload"]["case"] == case
    assert message.channel == CHANNEL
    assert ticket["ref"] in json.dumps(message.blocks), "the message names the ticket"

    again = cluster.run_once()
    assert again.exit_code == 0, again.output
    assert len(cluster.tickets()) == 1
    assert len(cluster.told) == 1
    assert cluster.marked() == [hot]


def test_a_healthy_fleet_is_left_alone(cluster: World) -> None:
    result = cluster.run_once()
    assert result.exit_code == 0, result.output
    assert cluster.untouched()
    assert "0 findings on 8 nodes" in result.stderr


def test_plan_says_what_would_be_done_and_does_nothing(cluster: World) -> None:
    hot = cluster.nodes[5]
    cluster.heat(hot)
    made = cluster.plan()
    assert set(made) >= {"now", "decisions"}
    decision = made["decisions"][0]
    assert decision["node"] == hot
    assert decision["policy"] == "gpu-hot"
    assert decision["verdict"] == "bad"
    assert decision["action"] == "quarantine"
    assert decision["held_by"] is None
    assert uuid(hot, 3) in decision["device"]
    evidence = decision["evidence"]
    assert evidence["value"] == 84
    assert evidence["unit"] == "°C"
    assert evidence["threshold"] == "above 78 °C for 5m, 10% tolerated"
    assert evidence["query"].count("DCGM_FI_DEV_GPU_TEMP") >= 3
    assert evidence["at"].endswith("Z")
    assert cluster.untouched()
    assert cluster.tickets() == []
    table = cluster.quarantine("plan")
    assert hot in table.stdout
    assert "84 °C" in table.stdout


def test_observe_mode_touches_nothing_and_says_what_it_would_have_done(cluster: World) -> None:
    hot = cluster.nodes[2]
    cluster.heat(hot)
    cluster.write_settings(mode="observe")
    assert cluster.run_once().exit_code == 0
    assert cluster.untouched()
    assert cluster.tickets() == []
    assert cluster.told == []
    status = json.loads(cluster.quarantine("status", "--output", "json").stdout)
    [case] = status["cases"]
    assert (case["node"], case["phase"], case["held_by"]) == (hot, "suspected", "observe-mode")


def test_a_person_opens_and_releases_and_what_was_there_before_stays(cluster: World) -> None:
    node = cluster.nodes[6]
    cluster.api.patch_merge("Node", node, {"spec": {"unschedulable": True}})
    nobody = cluster.quarantine("open", node, "--reason", "too early")
    assert nobody.exit_code == 1
    assert "nobody would read it" in nobody.stderr
    assert cluster.run_once().exit_code == 0
    assert cluster.quarantine("open", node, "--reason", "the provider says so").exit_code == 0
    assert cluster.untouched() is False, "only the cordon that was there"
    assert cluster.taints(node) == [] or all(t["key"] != "quarantine.gpu/suspect" for t in cluster.taints(node))
    assert cluster.run_once().exit_code == 0
    assert cluster.marked() == [node]
    assert cluster.api.get("Node", node)["metadata"]["annotations"]["quarantine.gpu/cordoned-by"] == "other"
    assert cluster.quarantine("release", node, "--reason", "tested all night").exit_code == 0
    assert cluster.run_once().exit_code == 0
    after = cluster.api.get("Node", node)
    assert after["spec"]["unschedulable"] is True, "the cordon that was found in place stays"
    assert all(not t["key"].startswith("quarantine.gpu/") for t in after["spec"].get("taints") or [])
    assert all(not key.startswith("quarantine.gpu/") for key in after["metadata"].get("annotations", {}))
    assert all(not key.startswith("quarantine.gpu/") for key in after["metadata"].get("labels", {}))


def test_a_released_hot_node_is_not_fought_over(cluster: World) -> None:
    hot = cluster.nodes[1]
    cluster.heat(hot)
    cluster.run_once()
    cluster.quarantine("release", hot, "--reason", "we need it tonight")
    cluster.run_once()
    cluster.run_once()
    assert cluster.untouched()


def test_explain_tells_the_story_with_its_evidence(cluster: World) -> None:
    hot, calm = cluster.nodes[4], cluster.nodes[0]
    cluster.heat(hot)
    cluster.run_once()
    told = cluster.quarantine("explain", hot)
    assert told.exit_code == 0, told.output
    assert f"{hot} is quarantined since" in told.stdout
    assert "measured 84 °C" in told.stdout
    assert "by policy gpu-hot" in told.stdout
    document = json.loads(cluster.quarantine("explain", hot, "--output", "json").stdout)
    assert [row["action"] for row in document["trail"]][:3] == ["quarantine", "ticket", "notify"]
    left = cluster.quarantine("explain", calm)
    assert f"nothing is held against {calm}" in left.stdout
    assert "policy gpu-hot saw nothing above 78 °C within 5m" in left.stdout
    assert "policy infiniband-link-flapping saw 0 new link failures" in left.stdout
    assert "in 10 of 10 samples within 5m" in told.stdout or "that is bad" in told.stdout
    unknown = cluster.quarantine("explain", "no-such-node")
    assert unknown.exit_code == 1
    assert "nothing is known of no-such-node" in unknown.stderr


def test_a_name_that_matches_no_node_is_reported_and_never_acted_on(cluster: World) -> None:
    cluster.heat(f"{cluster.name}-ghost")
    result = cluster.run_once()
    assert result.exit_code == 0, result.output
    assert cluster.untouched()
    assert "no node of this cluster is called so" in result.stderr


def test_the_trail_is_in_the_ledger_and_cannot_be_changed(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    cluster.run_once()
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        about = "select count(*) from decisions where action not in ('policy', 'count')"
        [(count,)] = book.execute(about).fetchall()
        assert count == 8
        with pytest.raises(sqlite3.Error, match="append"):
            book.execute("delete from decisions")


def test_looking_makes_no_ledger(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    assert cluster.plan()["decisions"][0]["node"] == cluster.nodes[3]
    assert cluster.quarantine("explain", cluster.nodes[0]).exit_code == 0
    status = cluster.quarantine("status")
    assert status.exit_code == 1
    assert "there is no ledger at" in status.stderr
    assert list(cluster.folder.glob("ledger.db*")) == []


def test_no_secret_leaves(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    results = [cluster.run_once(), cluster.quarantine("plan"), cluster.quarantine("explain", cluster.nodes[3])]
    told = "".join(result.output for result in results)
    files = "".join(
        path.read_text(errors="replace")
        for path in cluster.folder.rglob("*")
        if path.is_file() and path.name != "kubeconfig"
    )
    assert TOKEN not in told
    assert TOKEN not in files
    assert cluster.kube.token not in told + files
