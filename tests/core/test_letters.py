"""What a case says to the outside: which channel, which provider, whom to ask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quarantine.core.case import Case, Finding, Phase
from quarantine.core.decision import RequestKind, State
from quarantine.core.letters import report
from quarantine.core.model import Device, DeviceKind, Severity
from quarantine.core.planner import plan
from tests.core.world import after, ask, hot, policy, rules, snapshot

ROUTES = [
    {"pool": "gpu", "severity": "fatal", "channel": "C0FATAL"},
    {"pool": "other", "channel": "C0OTHER"},
    {"provider": "acme", "severity": "critical", "channel": "C0ACME"},
    {"provider": "acme", "channel": "C0LATER"},
]
LAW = rules(routes=[{"pool": "gpu", "channel": "C0GPU"}])


def case(severity: str = "critical") -> Case:
    state = after(State(), plan(snapshot(None, hot("node-3")), rules(policy(severity=severity))))
    found = state.open_case_of("node-3")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("severity", "channel"), [("fatal", "C0FATAL"), ("critical", "C0ACME"), ("warning", "C0LATER")]
)
def test_the_first_route_that_matches_counts(severity: str, channel: str) -> None:
    routes = [route for route in ROUTES if route.get("pool") != "other"]
    assert report(case(severity), "lab", rules(routes=routes)).channel == channel


def test_the_worst_finding_of_a_case_decides() -> None:
    mild = case("warning")
    worse = replace(mild.findings[0], device=Device(DeviceKind.GPU, "GPU-x"), severity=Severity.FATAL)
    both = replace(mild, findings=(*mild.findings, worse))
    law = rules(routes=[{"severity": "fatal", "channel": "C0FATAL"}])
    assert report(both, "lab", law).channel == "C0FATAL"
    assert report(mild, "lab", law).channel == "", "no route: the settings' channel"


def test_what_a_person_asks_for_is_critical() -> None:
    made = plan(snapshot(None, requests=[ask(RequestKind.OPEN, "node-3")]), rules())
    opened = after(State(), made).open_case_of("node-3")
    assert opened is not None
    assert report(opened, "lab", rules(routes=[{"severity": "critical", "channel": "C0A"}])).channel == "C0A"
    assert report(opened, "lab", rules(routes=[{"severity": "fatal", "channel": "C0A"}])).channel == ""


def test_another_pools_route_is_passed_over_as_is_a_case_of_no_pool() -> None:
    assert report(replace(case(), pool="another"), "lab", LAW).channel == ""
    assert report(replace(case(), pool=""), "lab", LAW).channel == ""
    assert report(case(), "lab", LAW).channel == "C0GPU"


def test_the_provider_is_told_as_the_fleet_file_says() -> None:
    provider = {"name": "acme", "description": "Acme,\ncontract 4711", "contact": "ops@lab.example"}
    made = report(case(), "lab", rules(providers=[provider]))
    assert (made.provider, made.provider_description) == ("acme", "Acme, contract 4711")
    assert made.provider_contact == "ops@lab.example"
    bare = report(case(), "lab", rules(providers=[{"name": "acme", "description": "Acme"}]))
    assert bare.provider_contact == ""
    assert report(case(), "lab", rules()).provider_description == ""


@pytest.mark.parametrize("kind", list(DeviceKind))
def test_every_kind_of_device_can_be_reported(kind: DeviceKind) -> None:
    found: Finding = replace(case().findings[0], device=Device(kind, "a/b", "3"))
    made = report(replace(case(), findings=(found,), phase=Phase.QUARANTINED), "lab", rules())
    assert made.faults[0].category
