"""`status` and `explain` tell everything that stands, on a narrow terminal too; JSON leaves nothing out."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console

from quarantine.cli import standing, story
from quarantine.cli.options import Output
from quarantine.core.case import (
    Case,
    Effect,
    EffectState,
    EffectStatus,
    HeldBy,
    Leaving,
    Phase,
    PodRef,
    Purpose,
    Run,
    Rung,
    Step,
)
from quarantine.core.decision import Action, Decision, Dismissal, Hold, Kind, RequestKind, State, Word, WordKind
from quarantine.core.model import Device, DeviceKind, Machine
from quarantine.ports import LedgerView, TrailRow
from tests.core.world import MINUTE, NOW, ask, quarantined

HOUR = timedelta(hours=1)
MACHINE = Machine("uid-7", "acme://7", "sys-7", "boot-7")


def treated() -> Case:
    state, _ = quarantined("node-7")
    (case,) = state.cases.values()
    run = Run("q-1-reset-1", Purpose.RESET, "gpu-reset", NOW, NOW + HOUR)
    return replace(
        case,
        id="q-1",
        phase=Phase.REMEDY,
        effects={**case.effects, Effect.TICKET: EffectState(EffectStatus.DONE, "T-17")},
        runs=(run,),
        rungs=(Rung(Step.RESET, 0, NOW, "gpu-reset"),),
        leaving=(Leaving(NOW, (PodRef("training", "llama-0", "u-0"),), "JobSet training/llama"),),
        put_back=(NOW, NOW + MINUTE),
    )


def state() -> State:
    case = treated()
    device = Device(DeviceKind.GPU, "GPU-1", "1")
    words = [
        Word(
            "pause/policy/gpu-hot", WordKind.PAUSE, "policy/gpu-hot", "an engineer (cli)", "a roll-out", NOW, NOW + HOUR
        ),
        Word(
            "maintenance/rack=r7", WordKind.MAINTENANCE, "rack=r7", "an engineer (cli)", "new optics", NOW, NOW + HOUR
        ),
    ]
    return State(
        cases={case.id: case},
        holds={
            "waived/node-2/x": Hold("waived/node-2/x", HeldBy.WAIVED, "node-2 stays in service by its annotation", NOW),
            "judge/ib": Hold("judge/ib", HeldBy.BREAKER, "policy ib is held: it finds too much", NOW, "ib"),
        },
        dismissals=(
            Dismissal("node-4", MACHINE, (), NOW + HOUR, "the run ends tonight", waiver=True, by="an engineer (cli)"),
            Dismissal("node-7", MACHINE, (("gpu.temperature", device),), NOW + HOUR, "no fault found", by="x"),
        ),
        words={word.key: word for word in words},
    )


def view() -> LedgerView:
    asked = replace(ask(RequestKind.PAUSE, ""), scope="pool/gpu")
    return LedgerView(state(), (), (asked,))


EVERYTHING = [
    "node-7",
    "q-1",
    "remedy",
    "2026-11-29 12:00:00",
    "2026-11-30 12:00",
    "T-17",
    "the reset by gpu-reset runs until 2026-11-29 13:00 UTC",
    "its taint was put back 2 times",
    "policy gpu-hot is paused by an engineer (cli) until 2026-11-29 13:00 UTC: a roll-out",
    "work is planned on rack=r7 by an engineer (cli) until 2026-11-29 13:00 UTC: new optics",
    "node-4 stays in service until 2026-11-29 13:00 UTC unless something fatal and new is found: the run ends tonight",
    "on node-7 is left alone until 2026-11-29 13:00 UTC: gpu.temperature of GPU 1 (GPU-1) (no fault found)",
    "node-2 stays in service by its annotation",
    "policy ib is held",
    "pause pool/gpu by an engineer",
]


@pytest.mark.parametrize("width", [60, 200])
def test_status_tells_everything_that_stands(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "console", lambda: Console(width=width))
    standing.status(view(), (), Output.TABLE)
    told = capsys.readouterr().out
    missing = [said for said in EVERYTHING if said not in told]
    assert missing == []
    assert told.count("node-2 stays in service") == 1, "a waiver is no hold to worry about"
    assert told.index("What people said:") < told.index("node-2 stays in service") < told.index("Held:")


def test_a_narrow_terminal_gets_blocks_that_say_who_is_told_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "console", lambda: Console(width=60))
    standing.status(view(), (), Output.TABLE)
    first = capsys.readouterr().out.splitlines()[:3]
    assert first == [
        "node-7  remedy since 2026-11-29 12:00:00",
        "  case q-1, ticket T-17",
        "  people are told at 2026-11-30 12:00: the remedy has not ended",
    ]


def test_status_as_json_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    standing.status(view(), (), Output.JSON)
    told = json.loads(capsys.readouterr().out)
    (case,) = told["cases"]
    assert case["deadline"] == "2026-11-30T12:00:00Z"
    assert case["runs"][0]["name"] == "q-1-reset-1"
    assert case["leaving"][0]["pods"] == [{"name": "training/llama-0", "uid": "u-0"}]
    assert case["steps"] == [{"step": "reset", "number": 0, "at": "2026-11-29T12:00:00Z", "procedure": "gpu-reset"}]
    assert len(case["put_back"]) == 2
    assert case["machine"]["system_uuid"] == "sys-node-7"
    assert [w["scope"] for w in told["words"]] == ["rack=r7", "policy/gpu-hot"]
    assert [(d["node"], d["waiver"]) for d in told["left_alone"]] == [("node-4", True), ("node-7", False)]
    assert {h["key"] for h in told["holds"]} == {"judge/ib", "waived/node-2/x"}
    assert told["requests"][0]["scope"] == "pool/gpu"


def test_status_as_markdown_tells_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    standing.status(view(), (), Output.MARKDOWN)
    told = capsys.readouterr().out.replace("\\", "")
    assert [said for said in EVERYTHING if said not in told] == []
    assert told.startswith("| node | case | phase |")
    standing.status(LedgerView(State(), (), ()), (), Output.MARKDOWN)
    assert capsys.readouterr().out == "No case is open.\n"


def test_explain_tells_what_people_said_of_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    made = Decision(
        NOW, Kind.DECIDED, Action.WAIVE, "an engineer keeps node-4 in service", "an engineer (cli)", "node-4"
    )
    story.show(story.Account("node-4", state(), [TrailRow(7, made, "h")]), Output.TABLE)
    told = capsys.readouterr().out
    assert "policy gpu-hot is paused" in told
    assert "node-4 stays in service until 2026-11-29 13:00 UTC" in told
    assert "node-7" not in told
    assert "#7  waive: an engineer keeps node-4 in service" in told
    story.show(story.Account("node-4", state(), [TrailRow(7, made, "h")]), Output.JSON)
    data = json.loads(capsys.readouterr().out)
    assert [d["node"] for d in data["left_alone"]] == ["node-4"]
    assert data["trail"][0]["action"] == "waive"


def test_text_from_outside_moves_no_cursor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b[2J[bold]all is well[/bold]"
    word = Word("pause/all", WordKind.PAUSE, "all", evil, evil, NOW)
    case = replace(treated(), node=f"node{evil}", reason=evil)
    bad = LedgerView(State(cases={"q": case}, words={"pause/all": word}), (), ())
    for width in (60, 200):
        monkeypatch.setattr(standing, "console", lambda wide=width: Console(width=wide))
        standing.status(bad, (), Output.TABLE)
        told = capsys.readouterr().out
        assert "\x1b" not in told
        assert "[bold]" in told
