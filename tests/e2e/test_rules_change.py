"""Policies that change under a running controller: taken up, held back while new, or broken and said so once."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import sqlite3
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World
from tests.mounts import Mount

BROKEN = "spec:\n\tx: <!channel>\n"


@pytest.fixture
def quick(cluster: World) -> World:
    """Cycles that follow one another quickly."""
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"})
    return cluster


def file(cluster: World, name: str = "gpu-hot.yaml") -> Path:
    return cluster.folder / "policies" / name


def status(cluster: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.quarantine("status", "--output", "json").stdout)
    return found


def lower(document: dict[str, Any]) -> None:
    """The shipped threshold, a little below."""
    if document["metadata"]["name"] == "gpu-hot":
        document["spec"]["trigger"]["above"] = 77


def metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {f"{s.name}{sorted(s.labels.values())}": s.value for family in families for s in family.samples}


def titles(cluster: World) -> list[str]:
    return [message.text.partition(".")[0] for message in cluster.told]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


NOTICE = "1 policy file is broken in cluster test"


def test_a_file_that_breaks_stays_in_force_and_is_said_once(quick: World) -> None:
    port = free_port()
    quick.write_settings(**{**quick.settings, "metrics": {"listen": f"127.0.0.1:{port}"}})
    sound, gauge = file(quick).read_text(), f"quarantine_policy_file_broken['{file(quick)}']"
    with running(quick, "first.log"):
        until(lambda: said(quick.folder / "first.log", "nothing to do"), "the first cycle")
        until(lambda: metrics(port).get("quarantine_cycle_last_completed_timestamp_seconds[]", 0) > 0, "it counts")
        assert metrics(port)[gauge] == 0
        file(quick).write_text(BROKEN)
        until(lambda: status(quick)["broken_files"] != [], "it is seen to be broken")
        (one,) = status(quick)["broken_files"]
        assert one["file"] == str(file(quick))
        assert one["in_force_since"] is not None
        assert "gpu-hot.yaml:2:1: a tab stands here" in one["reason"]
        assert "Broken policy files:" in quick.quarantine("status").stdout
        until(lambda: titles(quick) == [NOTICE], "people are told")
        assert quick.told[0].pings == ()
        until(lambda: metrics(port)[gauge] == 1, "so is Prometheus")
        assert metrics(port)["quarantine_policies['enforce']"] == 3
        quick.heat(quick.nodes[3])
        until(lambda: quick.marked() == [quick.nodes[3]], "the version before it acts")
        until(lambda: len(titles(quick)) == 2, "and asks for the swap")
    with running(quick, "second.log"):
        quick.heat(quick.nodes[5])
        until(lambda: quick.marked() == [quick.nodes[3], quick.nodes[5]], "after a restart as well")
        until(lambda: len(titles(quick)) == 3, "and asks again")
        assert titles(quick).count(NOTICE) == 1, "the notice is not repeated"
        assert metrics(port)[gauge] == 1
        file(quick).write_text(sound)
        until(lambda: status(quick)["broken_files"] == [], "it is repaired")
        until(lambda: metrics(port)[gauge] == 0, "Prometheus sees it too")
    assert titles(quick).count(NOTICE) == 1
    assert not said(quick.folder / "first.log", "Traceback")
    assert not said(quick.folder / "second.log", "Traceback")


def test_slack_that_is_down_is_told_later(quick: World) -> None:
    assert quick.run_once().exit_code == 0
    file(quick).write_text(BROKEN)
    url = quick.settings["slack"]["base_url"]
    quick.write_settings(**{**quick.settings, "slack": {"channel": "C0TEST", "base_url": "http://127.0.0.1:1/api/"}})
    assert quick.run_once().exit_code == 3, "what could not be said is said"
    assert len(status(quick)["broken_files"]) == 1
    quick.write_settings(**{**quick.settings, "slack": {"channel": "C0TEST", "base_url": url}})
    assert quick.run_once().exit_code == 0
    assert titles(quick) == [], "another process does not repeat what it cannot know the outcome of"


def test_plan_and_explain_reason_from_what_is_in_force(quick: World) -> None:
    assert quick.run_once().exit_code == 0
    quick.heat(quick.nodes[2])
    file(quick).write_text(BROKEN)
    made = {(d["action"], d["held_by"], d["node"]) for d in quick.plan()["decisions"]}
    assert ("judge", "broken-file", None) in made
    assert ("quarantine", None, quick.nodes[2]) in made
    told = quick.quarantine("explain", quick.nodes[2])
    assert told.exit_code == 0
    assert "gpu-hot" in told.stdout
    assert status(quick)["broken_files"] == [], "looking records nothing"


def test_a_changed_policy_observes_for_its_first_cycles(quick: World) -> None:
    assert quick.run_once().exit_code == 0
    quick.write_policies(lower)
    quick.heat(quick.nodes[6])
    for _ in range(3):
        assert quick.run_once().exit_code == 0
        assert quick.untouched()
        assert "changed-policy" in {hold["held_by"] for hold in status(quick)["holds"]}
    assert quick.run_once().exit_code == 0
    assert quick.marked() == [quick.nodes[6]]
    assert "changed-policy" not in {hold["held_by"] for hold in status(quick)["holds"]}


@pytest.mark.timeout(300)
def test_a_mounted_config_map_is_swapped_under_the_running_controller(quick: World) -> None:
    """As a kubelet does it. Every moment of a swap, and what is half there: tests/test_rulebook_mounted.py."""
    port, folder, log = free_port(), quick.folder / "policies", quick.folder / "run.log"
    quick.write_settings(**{**quick.settings, "metrics": {"listen": f"127.0.0.1:{port}"}})
    data = {path.name: path.read_text() for path in folder.iterdir()}
    shutil.rmtree(folder)
    mount = Mount(folder, data)
    quick.heat(quick.nodes[2], celsius=77.5)  # too cool for what is mounted
    with running(quick):
        until(lambda: said(log, "nothing to do"), "the first cycle", 90)
        before = cycles(port)
        stricter = {**data, "gpu-hot.yaml": data["gpu-hot.yaml"].replace("above: 78", "above: 77")}
        mount.swap(stricter)
        until(lambda: changes(quick) == ["gpu-hot is changed"], "it is in force", 60)
        # The one that ran, the one that saw it first, the one that saw it again, and one that ended meanwhile.
        assert cycles(port) - before <= 4, "and soon"
        until(lambda: quick.marked() == [quick.nodes[2]], "it acts by it, in the end", 90)
        assert "observe-mode" in held(quick, quick.nodes[2]), "and has observed first, though it may act"
        mount.swap({**stricter, "gpu-hot.yaml": BROKEN})
        until(lambda: metrics(port)[f"quarantine_policy_file_broken['{file(quick)}']"] == 1, "it is said", 60)
        quick.heat(quick.nodes[3], celsius=77.5)
        until(lambda: quick.nodes[3] in quick.marked(), "the version before it acts", 60)
    assert not said(log, "Traceback")


def cycles(port: int) -> float:
    """How many have ended."""
    return sum(value for name, value in metrics(port).items() if name.startswith("quarantine_cycles_total"))


def changes(cluster: World) -> list[str]:
    """Which policies were changed, and how, since the first cycle."""
    found = [re.match(r"policy (\S+) (is changed|is no more)", reason) for _, _, reason in recorded(cluster)]
    return [f"{one[1]} {one[2]}" for one in found if one is not None]


def held(cluster: World, node: str) -> set[str]:
    """What has ever held a node's findings back."""
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        bodies = book.execute("select body from decisions where node = ?", [node]).fetchall()
    return {str(json.loads(body).get("held_by")) for (body,) in bodies}


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


@pytest.mark.parametrize("harm", [emptied, moved])
def test_policies_that_vanish_stay_in_force(quick: World, harm: Callable[[Path], None]) -> None:
    assert quick.run_once().exit_code == 0
    harm(quick.folder / "policies")
    quick.heat(quick.nodes[1])
    done = quick.run_once()
    assert done.exit_code == 0, done.output
    assert quick.marked() == [quick.nodes[1]]
    (one,) = status(quick)["broken_files"]
    assert one["file"] == str(quick.folder / "policies")
    assert one["in_force_since"] is not None


def test_a_policy_that_is_deleted_decides_nothing_any_more(quick: World) -> None:
    assert quick.run_once().exit_code == 0
    file(quick).unlink()
    quick.heat(quick.nodes[1])
    assert quick.run_once().exit_code == 0
    assert quick.untouched()
    assert status(quick)["broken_files"] == []


def test_metrics_on_an_address_that_is_taken_are_refused(quick: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        quick.write_settings(**{**quick.settings, "metrics": {"listen": f"127.0.0.1:{port}"}})
        refused = quick.quarantine("run")
    assert refused.exit_code == 2
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.output


def test_every_change_of_the_rules_is_a_decision_and_every_text_is_kept(quick: World) -> None:
    """Each version that came into force, the fleet's and the defaults' as well; in each cycle after, nothing more."""
    assert quick.run_once().exit_code == 0
    begun = recorded(quick)
    documents = {name for name, _, _ in begun}
    assert {"fleet/fleet", "defaults/defaults", "gpu-hot"} <= documents
    assert len(begun) == len(documents)
    kept = texts(quick)
    assert all(hashlib.sha256(kept[hash_].encode()).hexdigest() == hash_ for _, hash_, _ in begun)
    assert next(kept[hash_] for name, hash_, _ in begun if name == "fleet/fleet").startswith("apiVersion")
    assert quick.run_once().exit_code == 0
    assert recorded(quick) == begun

    quick.write_policies(lower)
    file(quick, "infiniband-link-flapping.yaml").unlink()
    for _ in range(2):
        assert quick.run_once().exit_code == 0
    changed, gone = recorded(quick)[len(begun) :]
    assert changed[2].startswith("policy gpu-hot is changed from text ")
    assert "above: 77" in texts(quick)[changed[1]]
    assert gone[:2] == ("infiniband-link-flapping", None)
    assert gone[2].startswith("policy infiniband-link-flapping is no more; it was in force since ")
    assert len(sizes(quick)) == 1, "the pool is counted once"


def recorded(cluster: World) -> list[tuple[str, Any, str]]:
    """Name, hash and sentence of every change of the rules in the trail."""
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        rows = book.execute("select body from decisions where action = 'policy' order by seq").fetchall()
    bodies = [json.loads(body) for (body,) in rows]
    return [(body["policy"], body.get("policy_hash"), body["reason"]) for body in bodies]


def texts(cluster: World) -> dict[str, str]:
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        return dict(book.execute("select hash, text from policy_versions").fetchall())


def sizes(cluster: World) -> list[Any]:
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        return book.execute("select pool, nodes, gpus from pool_sizes").fetchall()
