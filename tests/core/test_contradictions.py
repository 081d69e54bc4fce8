"""What no schema sees: a policy that contradicts itself, its signals or its fleet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.compatible import incompatible
from quarantine.core.contradictions import contradictions, fleet_contradictions, signal_contradictions
from quarantine.core.fleet import FleetSpec
from quarantine.core.policy import PolicySpec
from quarantine.core.signal import SignalSpec
from quarantine.core.trigger import Recovery, Trigger

DCGM = {
    "exporter": "dcgm-exporter",
    "metrics": ["X"],
    "node": {"first": ["Hostname"]},
    "device": {"first": ["UUID"]},
    "model": "modelName",
    "heartbeat": "ENERGY",
}
NODE_EXPORTER = {"exporter": "node-exporter", "metrics": ["N"], "node": {"first": ["Hostname"]}}


def signal(**changes: Any) -> SignalSpec:
    spec: dict[str, Any] = {
        "description": "d",
        "unit": "°C",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 0, "max": 130},
        "interval": "30s",
        "sources": [DCGM],
        **changes,
    }
    return SignalSpec.model_validate(spec)


OF_NODE = {"device": "node", "sources": [NODE_EXPORTER]}
SIGNALS = {
    "temp": signal(),
    "work": signal(plausible={"min": 0, "max": 1}),
    "count": signal(type="counter", plausible={"min": 0, "max": 255}, saturates=255),
    "free": signal(
        sources=[{k: v for k, v in DCGM.items() if k not in {"metrics", "model", "heartbeat"}} | {"expr": "e"}]
    ),
    "uptime": signal(**OF_NODE, plausible={"min": 0, "max": 1e9}),
    "other": signal(sources=[{**DCGM, "exporter": "gpud", "device": {"first": ["uuid"]}}]),
    "link": signal(
        type="counter",
        device="nvlink",
        sources=[{**DCGM, "device": {"join": ["UUID", "nvlink"]}, "model": None, "heartbeat": None}],
    ),
    "renamed": signal(
        sources=[{**DCGM, "node": {"first": ["Hostname", "hostname"]}, "device": {"first": ["UUID", "uuid"]}}]
    ),
    "both": signal(sources=[DCGM, {**DCGM, "exporter": "gpud"}]),
}
LOAD = {"signal": "work", "above": 0.1}
FROM_GPUD = {"exporter": "gpud"}
FLEET = FleetSpec.model_validate(
    {
        "pools": [{"name": "gpu", "nodeSelector": {"gpu": "yes"}}],
        "uptime": "uptime",
        "topology": {"rack": "topology/rack"},
    }
)
BARE = FleetSpec.model_validate({"pools": [{"name": "gpu", "nodeSelector": {"gpu": "yes"}}]})


def spec(**changes: Any) -> PolicySpec:
    fields: dict[str, Any] = {
        "description": "d",
        "owner": "o",
        "severity": "critical",
        "signal": "temp",
        "trigger": {"above": 78, "for": "5m"},
        "recovery": {"below": 72, "for": "30m", "load": LOAD},
        **changes,
    }
    return PolicySpec.model_validate(fields)


def recovery(**changes: Any) -> dict[str, Any]:
    return {"for": "30m", "load": LOAD, **changes}


A100 = {"model": "*A100*", "above": 85}
EVENTS = {"events": 2, "within": "10m"}
ABSENT = {"absent": True, "for": "5m"}
SIBLINGS = {"aboveSiblings": 8, "for": "5m"}
OUTSIDE = {"outside": {"min": 10, "max": 90}, "for": "5m"}

SOUND: list[Mapping[str, Any]] = [
    {},
    {"recovery": None},
    {"trigger": {"below": 10, "for": "5m"}, "recovery": recovery(above=20)},
    {"trigger": OUTSIDE, "recovery": recovery(above=20, below=80)},
    {"trigger": SIBLINGS, "recovery": recovery(below=4)},
    {"trigger": SIBLINGS, "recovery": recovery(below=0)},
    {"trigger": ABSENT, "recovery": recovery()},
    {"trigger": ABSENT, "signal": "uptime", "recovery": None},
    {"trigger": EVENTS, "signal": "count", "recovery": recovery()},
    {"trigger": {"above": 78, "for": "5m", "models": [A100]}},
    {
        "trigger": {"above": 78, "for": "5m", "models": [{"model": "*A100*", "above": 60}]},
        "recovery": recovery(below=72, models=[{"model": "*A100*", "below": 55}]),
    },
    {"grace": {"boot": "10m", "driver": "5m"}},
    {"escalation": {"findings": 3, "within": "12h"}},
    {"correlation": {"by": ["rack"], "within": "5m"}},
    {"nodeSelector": {"zone": "a"}},
    {"signal": "both", "recovery": recovery(below=72, load={**LOAD, "exporter": "dcgm-exporter"})},
    {"recovery": recovery(below=72, load={"signal": "uptime", "above": 5, "exporter": "node-exporter"})},
    {"signal": "link", "trigger": EVENTS, "recovery": recovery()},
    {"recovery": recovery(below=72, load={"signal": "renamed", "above": 1})},
    {"signal": "renamed"},
]


@pytest.mark.parametrize("changes", SOUND)
def test_what_fits_together_is_no_contradiction(changes: Mapping[str, Any]) -> None:
    assert contradictions("p", spec(**changes), SIGNALS, FLEET) == []


CASES: list[tuple[Mapping[str, Any], str, str]] = [
    ({"signal": "temperature"}, "spec.signal", "no signal is called 'temperature' (known: both, count,"),
    ({"signal": "count"}, "spec.trigger", "count is a counter, so its trigger is events within a time"),
    (
        {"trigger": EVENTS, "recovery": None},
        "spec.trigger",
        "temp is a gauge, so its trigger is above, below or outside",
    ),
    (
        {"trigger": {"above": 78, "for": "59s"}},
        "spec.trigger",
        "over 59s never fires, since temp has a new value every 30s",
    ),
    (
        {"signal": "count", "trigger": {"events": 1, "within": "30s"}, "recovery": None},
        "spec.trigger",
        "over 30s never",
    ),
    ({"trigger": {"absent": True, "for": "30s"}, "recovery": None}, "spec.trigger", "a trigger over 30s never fires"),
    ({"trigger": {"above": 130, "for": "5m"}}, "spec.trigger", "never fires, since a value is plausible from 0 to 130"),
    ({"trigger": {"below": 0, "for": "5m"}, "recovery": None}, "spec.trigger", "the trigger never fires"),
    (
        {"trigger": {"above": 78, "for": "5m", "models": [{"model": "H*", "above": 200}]}},
        "spec.trigger.models.0",
        "the trigger for H* never fires",
    ),
    (
        {"signal": "count", "trigger": {**EVENTS, "events": 255}, "recovery": None},
        "spec.trigger",
        "never counts to 255",
    ),
    ({"signal": "free", "trigger": ABSENT, "recovery": None}, "spec.trigger", "absence is seen by metrics, and free"),
    ({"trigger": {**ABSENT, "for": "6h"}, "recovery": None}, "spec.trigger", "a device is forgotten after 6h"),
    ({"trigger": {**ABSENT, "within": "5m"}, "recovery": None}, "spec.trigger", "a device is forgotten after 5m"),
    ({"signal": "uptime", "trigger": SIBLINGS, "recovery": None}, "spec.trigger", "a node has no siblings on itself"),
    ({"trigger": {**SIBLINGS, "aboveSiblings": 0}, "recovery": None}, "spec.trigger", "must be more than 0"),
    (
        {"signal": "free", "trigger": {"above": 78, "for": "5m", "models": [A100]}},
        "spec.trigger.models",
        "bounds for models need a label with the model, and there is none for dcgm-exporter",
    ),
    (
        {"signal": "free", "recovery": recovery(below=72, models=[{"model": "A", "below": 70}])},
        "spec.recovery.models",
        "bounds for models need a label",
    ),
    ({"recovery": recovery()}, "spec.recovery", "its trigger is above, so its recovery must give below, and only that"),
    ({"recovery": recovery(above=80)}, "spec.recovery", "its recovery must give below, and only that"),
    ({"recovery": recovery(above=1, below=70)}, "spec.recovery", "its recovery must give below, and only that"),
    ({"recovery": recovery(below=79)}, "spec.recovery", "recovery below 79 contradicts the trigger at 78"),
    (
        {"recovery": recovery(below=0)},
        "spec.recovery",
        "nothing recovers: no plausible value of the signal is that good",
    ),
    (
        {"trigger": {"below": 10, "for": "5m"}, "recovery": recovery(above=9)},
        "spec.recovery",
        "recovery above 9 contradicts the trigger at 10",
    ),
    ({"trigger": OUTSIDE, "recovery": recovery(below=80)}, "spec.recovery", "its recovery must give above and below"),
    (
        {"trigger": OUTSIDE, "recovery": recovery(above=9, below=80)},
        "spec.recovery",
        "above 9 contradicts the trigger at 10",
    ),
    (
        {"trigger": OUTSIDE, "recovery": recovery(above=20, below=91)},
        "spec.recovery",
        "below 91 contradicts the trigger",
    ),
    (
        {"trigger": OUTSIDE, "recovery": recovery(above=50, below=40)},
        "spec.recovery",
        "no value is above 50 and below 40",
    ),
    ({"trigger": SIBLINGS, "recovery": recovery(below=9)}, "spec.recovery", "below 9 contradicts the trigger at 8"),
    (
        {"trigger": EVENTS, "signal": "count", "recovery": recovery(below=1)},
        "spec.recovery",
        "events recover by having none for a time",
    ),
    ({"trigger": ABSENT, "recovery": recovery(above=1)}, "spec.recovery", "what is absent recovers by being seen"),
    (
        {"trigger": {"above": 78, "for": "5m", "models": [{"model": "*A100*", "above": 60}]}},
        "spec.recovery",
        "recovery below 72 contradicts the trigger at 60",
    ),
    (
        {"recovery": recovery(below=72, models=[{"model": "H*", "below": 80}])},
        "spec.recovery.models.0",
        "recovery below 80 contradicts the trigger at 78",
    ),
    (
        {"recovery": recovery(below=72, models=[{"model": "H*", "above": 2}])},
        "spec.recovery.models.0",
        "must give below, and only that",
    ),
    ({"recovery": {**recovery(below=72), "for": "30s"}}, "spec.recovery", "nothing recovers within 30s"),
    ({"recovery": recovery(below=72, load={"signal": "w", "above": 1})}, "spec.recovery.load.signal", "is called 'w'"),
    (
        {"recovery": recovery(below=72, load={"signal": "count", "above": 1})},
        "spec.recovery.load.signal",
        "the load must be a gauge of the same device (gpu) or of the node",
    ),
    (
        {"recovery": recovery(below=72, load={"signal": "work", "above": 1})},
        "spec.recovery.load.above",
        "no load exceeds 1",
    ),
    (
        {"recovery": recovery(below=72, load={**LOAD, "exporter": "gpud"})},
        "spec.recovery.load.exporter",
        "work has no source for gpud (there is dcgm-exporter)",
    ),
    ({"signal": "both"}, "spec.recovery.load.signal", "work has no source for gpud, so nothing recovers there"),
    (
        {"recovery": recovery(below=72, load={"signal": "other", "above": 1, "exporter": "gpud"})},
        "spec.recovery.load.signal",
        "other names it by Hostname, uuid and dcgm-exporter by Hostname, UUID",
    ),
    (
        {"signal": "link", "trigger": EVENTS, "recovery": recovery(load={"signal": "link", "above": 1})},
        "spec.recovery.load.signal",
        "must be a gauge of the same device (nvlink), of its GPU or of the node",
    ),
    (
        {"signal": "link", "trigger": EVENTS, "recovery": recovery(load={"signal": "other", "above": 1, **FROM_GPUD})},
        "spec.recovery.load.signal",
        "other names it by Hostname, uuid and dcgm-exporter by Hostname, UUID, nvlink",
    ),
    (
        {"signal": "uptime", "recovery": recovery(below=72, load={**LOAD, "exporter": "dcgm-exporter"})},
        "spec.recovery.load.signal",
        "must be a gauge of the same device (node) or of the node",
    ),
    (
        {"signal": "free", "grace": {"driver": "5m"}},
        "spec.grace.driver",
        "needs a heartbeat, and there is none for dcgm",
    ),
    (
        {"recovery": None, "escalation": {"findings": 2, "within": "1h"}},
        "spec.escalation",
        "an escalation needs a recovery",
    ),
    ({"escalation": {"findings": 3, "within": "1h"}}, "spec.escalation", "3 findings within 1h cannot be"),
    (
        {"correlation": {"by": ["leaf"], "within": "5m"}},
        "spec.correlation.by.0",
        "topology has no 'leaf' (known: rack)",
    ),
    ({"nodeSelector": {"gpu": "no"}}, "spec.nodeSelector", "no pool of the fleet can have such a node"),
]


@pytest.mark.parametrize(("changes", "where", "sentence"), CASES)
def test_each_contradiction_has_its_place_and_sentence(changes: Mapping[str, Any], where: str, sentence: str) -> None:
    found = contradictions("p", spec(**changes), SIGNALS, FLEET)
    assert len(found) == 1, found
    assert ".".join(map(str, found[0].path)) == where
    assert found[0].sentence.startswith("policy p: ")
    assert sentence in found[0].sentence


def test_a_grace_after_boot_needs_a_signal_that_tells_of_it() -> None:
    graced = spec(grace={"boot": "10m"})
    assert "the fleet names none" in contradictions("p", graced, SIGNALS, BARE)[0].sentence
    assert contradictions("p", graced, SIGNALS, None) == [], "a fleet that is broken is reported by itself"


def test_a_policys_own_query_is_held_to_the_same() -> None:
    query = {
        "expr": "e",
        "unit": "x",
        "device": "gpu",
        "plausible": {"min": 0, "max": 100},
        "interval": "1m",
        "node": {"first": ["Hostname"]},
        "labels": {"first": ["UUID"]},
    }
    own = spec(signal=None, query=query, trigger={"above": 78, "for": "1m"}, recovery=None)
    assert "since its query has a new value every 1m" in contradictions("p", own, SIGNALS, FLEET)[0].sentence


def test_a_missing_signal_is_named_so_that_a_broken_file_is_not_reported_twice() -> None:
    assert [c.missing for c in contradictions("p", spec(signal="x"), SIGNALS, FLEET)] == ["x"]
    gone = spec(recovery=recovery(below=72, load={"signal": "w", "above": 1}))
    assert [c.missing for c in contradictions("p", gone, SIGNALS, FLEET)] == ["w"]


def test_a_gauge_does_not_saturate_and_a_mapping_is_not_joined_on_what_it_tells() -> None:
    assert "a gauge does not saturate" in signal_contradictions(signal(saturates=100))[0].sentence
    via = {"first": ["node"], "via": {"metric": "map", "by": ["guid", "node"]}}
    found = signal_contradictions(signal(sources=[{**DCGM, "node": via}]))
    assert [c.path for c in found] == [("spec", "sources", 0, "node", "via", "by")]
    assert signal_contradictions(SIGNALS["count"]) == []


@pytest.mark.parametrize(
    ("changes", "where", "sentence"),
    [
        ({"uptime": "up"}, "spec.uptime", "no signal is called 'up'"),
        ({"uptime": "temp"}, "spec.uptime", "uptime must be a gauge of the node, and temp is not"),
        (
            {"pools": [{"name": "a", "nodeSelector": {"x": "1"}}, {"name": "b", "nodeSelector": {"x": "1", "y": "2"}}]},
            "spec.pools.1.nodeSelector",
            "pool b never has a node: pool a stands before it",
        ),
        (
            {"routes": [{"channel": "CALL"}, {"severity": "fatal", "channel": "CFATAL"}]},
            "spec.routes.1",
            "nothing goes by this route to CFATAL",
        ),
    ],
)
def test_a_fleet_may_contradict_itself(changes: Mapping[str, Any], where: str, sentence: str) -> None:
    fleet = FleetSpec.model_validate({"pools": [{"name": "gpu", "nodeSelector": {"gpu": "yes"}}], **changes})
    found = fleet_contradictions(fleet, SIGNALS)
    assert [".".join(map(str, c.path)) for c in found] == [where]
    assert sentence in found[0].sentence


def test_a_fleet_as_people_write_it_has_no_contradiction() -> None:
    fleet = FleetSpec.model_validate(
        {
            "pools": [{"name": "b", "nodeSelector": {"x": "1", "y": "2"}}, {"name": "a", "nodeSelector": {"x": "1"}}],
            "routes": [
                {"severity": "fatal", "channel": "CFATAL"},
                {"pool": "a", "channel": "CTEAMA"},
                {"pool": "b", "severity": "critical", "channel": "CTEAMB"},
                {"channel": "CALL"},
            ],
            "uptime": "uptime",
        }
    )
    assert fleet_contradictions(fleet, SIGNALS) == []


# --- Never bad and good at once ---------------------------------------------------------------------------------------

MODELS = st.sampled_from(["A*", "*1", "A1", "B*", "*"])
BOUNDS = st.integers(0, 4)


@given(
    own=BOUNDS,
    models=st.lists(st.tuples(MODELS, BOUNDS), max_size=3),
    back=BOUNDS,
    back_models=st.lists(st.tuples(MODELS, BOUNDS), max_size=3),
)
def test_a_compatible_recovery_never_calls_good_what_the_trigger_calls_bad(
    own: int, models: list[tuple[str, int]], back: int, back_models: list[tuple[str, int]]
) -> None:
    trigger = Trigger.model_validate(
        {"above": own, "for": "5m", "models": [{"model": m, "above": b} for m, b in models]}
    )
    good = Recovery.model_validate(recovery(below=back, models=[{"model": m, "below": b} for m, b in back_models]))
    clash = bool(list(incompatible(trigger, good)))
    for model in ("A1", "A2", "B1", "B2", "C1", "C2"):
        bad_above = next((b.above for b in trigger.models if re.fullmatch(b.regex, model)), trigger.above)
        good_below = next((b.below for b in good.models if re.fullmatch(b.model.replace("*", ".*"), model)), good.below)
        assert bad_above is not None
        assert good_below is not None
        if good_below > bad_above:
            assert clash
