"""What a case says to the outside: which channel, which provider, whom to ask."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Case, Finding, HeldBy, Phase, Purpose, Run, RunOutcome, Step
from quarantine.core.decision import Hold, RequestKind, State
from quarantine.core.letters import report
from quarantine.core.model import Device, DeviceKind, Severity
from quarantine.core.planner import plan
from tests.core.world import DONE, NOW, after, ask, hot, policy, rules, snapshot

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


def test_what_is_asked_for_is_said_in_the_title() -> None:
    devices = "GPU 3 (GPU-node-3-3)"
    assert report(case(), "lab", rules()).title == f"node-3: {devices} suspect, please replace the machine"
    asked = report(case(), "lab", rules(), ask=Step.REPLACE)
    assert asked.title == f"node-3: please replace the machine, {devices} suspect"
    assert (asked.ask, report(case(), "lab", rules()).ask) == ("replace", "report")
    with pytest.raises(ValueError, match="not to reboot"):
        report(case(), "lab", rules(), ask=Step.REBOOT)


@pytest.mark.parametrize(
    ("phase", "ask_for", "said"),
    [
        (Phase.QUARANTINED, Step.REPORT, "what runs was left alone"),
        (Phase.DRAINING, Step.REPORT, "what runs is being asked to leave"),
        (Phase.DRAINED, Step.REPORT, "what ran has left"),
        (Phase.DRAINED, Step.REPLACE, "no training runs there any more: what is left on it may be destroyed"),
    ],
)
def test_what_became_of_the_work_on_the_machine_is_said(phase: Phase, ask_for: Step, said: str) -> None:
    made = report(replace(case(), phase=phase, cordoned_by_us=True), "lab", rules(), ask=ask_for)
    assert made.done == f"node-3 is cordoned and tainted: nothing new is scheduled there, and {said}"


def ran(purpose: Purpose, outcome: RunOutcome, number: int = 1, output: str = "") -> Run:
    name, until = f"q-1-{purpose}-{number}", NOW + timedelta(hours=1)
    return Run(name, purpose, f"by-{purpose}", NOW, until, outcome, NOW, output)


def test_what_was_tried_is_told_with_its_outcome() -> None:
    tried = (
        ran(Purpose.EVIDENCE, RunOutcome.SUCCEEDED, output="s3://evidence/q-1"),
        ran(Purpose.RESET, RunOutcome.SUCCEEDED),
        ran(Purpose.BURN_IN, RunOutcome.FAILED),
        ran(Purpose.REBOOT, RunOutcome.LATE),
    )
    made = report(replace(case(), runs=tried), "lab", rules())
    assert made.tried == (
        "reset by by-reset, begun 2026-11-29 12:00 UTC: succeeded",
        "burn-in by by-burn-in, begun 2026-11-29 12:00 UTC: failed",
        "reboot by by-reboot, begun 2026-11-29 12:00 UTC: did not end in time",
    )
    assert made.evidence_output == "s3://evidence/q-1"


@pytest.mark.parametrize(
    ("outcome", "output", "told"),
    [
        (RunOutcome.FAILED, "s3://e", "s3://e (by-evidence: failed)"),
        (RunOutcome.LOST, "s3://e", "s3://e (by-evidence: what became of it is not known)"),
        (RunOutcome.SUCCEEDED, "", ""),
    ],
)
def test_evidence_that_may_not_be_there_is_told_so(outcome: RunOutcome, output: str, told: str) -> None:
    runs = (ran(Purpose.EVIDENCE, outcome, output=output),)
    assert report(replace(case(), runs=runs), "lab", rules()).evidence_output == told


def test_what_is_remembered_of_the_machine_is_told_where_the_state_is_given() -> None:
    now = case()
    before = now.opened_at - timedelta(days=3)
    earlier = replace(
        now, id="q-before", opened_at=before, phase=Phase.RELEASED, effects=dict.fromkeys(now.effects, DONE)
    )
    earlier = replace(earlier, findings=tuple(replace(f, since=before) for f in now.findings))
    state = State(cases={now.id: now, earlier.id: earlier})
    assert report(now, "lab", rules(), state=state).history == (
        "out of service once in the 28 days before; 1 finding by 1 signal; 1 ticket"
    )
    bare = report(now, "lab", rules())
    assert (bare.history, bare.swap, bare.tried, bare.evidence_output) == ("", "", (), "")


def test_what_was_told_of_an_exchange_is_told_to_the_provider() -> None:
    now = case()
    told = [
        Hold(f"same/{now.id}", HeldBy.SAME_MACHINE, "GPU-1 came back", NOW),
        Hold(f"place/{now.id}", HeldBy.SAME_PLACE, "the slot is the suspect", NOW),
        Hold("same/q-other", HeldBy.SAME_MACHINE, "of another case", NOW),
    ]
    state = State(cases={now.id: now}, holds={hold.key: hold for hold in told})
    assert report(now, "lab", rules(), state=state).swap == "GPU-1 came back; the slot is the suspect"
