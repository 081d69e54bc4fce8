"""A case's report, a running stand-in, and a notifier that talks to it with the stock SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.slack.notifier import SlackNotifier, connect
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine
from quarantine.sandbox.slack import Person, SlackServer, serve_slack

OPENED = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
UUID = "GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11"
TOKEN = "xoxb-1-very-secret"
APP_TOKEN = "xapp-1-A0SANDBOX-1-very-secret"
CHANNEL = "C0GPUOPS"
APPROVERS, OTHERS = "S0APPROVE", "S0OTHERS"  # user groups: Ann is in both, Bob in the second
PEOPLE = (
    Person("U0ANN", "ann"),
    Person("U0BOB", "bob"),
    Person("U0ODD", "<!here> ann"),
    Person("U0GUEST", "gus", guest=True),
    Person("U0ONE", "one", single_channel_guest=True),
    Person("U0GONE", "gone", deleted=True),
    Person("U0BOT", "bot", bot=True),
    Person("U0FAR", "eve", team="T0OTHER"),
    Person("U0SISTER", "sis", team="T0SISTER", enterprise="E0ORG"),  # of another workspace of an organization
    Person("U0GRID", "grid", team="T0SISTER", enterprise="E0ORG", teams=("T0SANDBOX",)),  # and of ours too
)


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = OPENED

    def __call__(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by


@pytest.fixture(scope="module")
def clock() -> Hands:
    return Hands()


@pytest.fixture(scope="module")
def running(clock: Hands) -> Iterator[SlackServer]:
    with serve_slack(
        token=TOKEN,
        app_token=APP_TOKEN,
        channels=[CHANNEL, "C0NIGHT", "C0SHUT", "C0OLD"],
        now=clock,
        not_in=["C0SHUT"],
        archived=["C0OLD"],
        people=PEOPLE,
        groups={APPROVERS: ["U0ANN"], OTHERS: ["U0ANN", "U0BOB"]},
    ) as server:
        yield server


@pytest.fixture
def slack(running: SlackServer) -> SlackServer:
    running.reset()
    return running


@pytest.fixture
def advance(clock: Hands) -> Callable[[timedelta], None]:
    return clock.advance


@pytest.fixture
def notifier_of(slack: SlackServer, clock: Hands) -> Callable[..., SlackNotifier]:
    def make(**changes: object) -> SlackNotifier:
        settings: dict[str, object] = {
            "token": TOKEN,
            "channel": CHANNEL,
            "cluster": "lab",
            "now": clock,
            "base_url": slack.base_url,
            "timeout": timedelta(seconds=5),
        }
        return connect(**(settings | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def notifier(notifier_of: Callable[..., SlackNotifier]) -> SlackNotifier:
    return notifier_of()


@pytest.fixture
def make_fault() -> Callable[..., Fault]:
    def make(**changes: object) -> Fault:
        fields: dict[str, object] = {
            "policy": "gpu-hot",
            "why": "A GPU that runs hotter than its peers throttles, and the whole job waits for it.",
            "device": f"GPU 3 ({UUID})",
            "category": "GPU",
            "severity": "critical",
            "since": OPENED - timedelta(minutes=7),
            "value": "91.5 °C",
            "threshold": "above 78 °C for 5m, 10% tolerated",
            "query": "max by (UUID) (DCGM_FI_DEV_GPU_TEMP) > 78",
            "labels": (("Hostname", "gpu-017"), ("exported_pod", "llm-900b-worker-12")),
        }
        return Fault(**(fields | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_report(make_fault: Callable[..., Fault]) -> Callable[..., CaseReport]:
    def make(**changes: object) -> CaseReport:
        fields: dict[str, object] = {
            "key": "gpu-017-a3",
            "cluster": "lab",
            "node": "gpu-017",
            "machine": Machine(node_uid="0c0ffee0", provider_id="acme://zone-2/i-0abc", system_uuid="4c4c4544"),
            "pool": "h100",
            "provider": "acme",
            "ask": "report",
            "title": f"gpu-017: GPU 3 ({UUID}) suspect, please replace the machine",
            "done": "the node is cordoned and tainted: nothing new is scheduled there",
            "reason": "gpu-hot: GPU 3 of gpu-017 was above 78 °C for 5m",
            "opened_at": OPENED,
            "opened_by": "controller",
            "faults": (make_fault(),),
        }
        return CaseReport(**(fields | changes))  # type: ignore[arg-type]

    return make
