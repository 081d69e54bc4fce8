"""What people copy from the page on draining is what the policy language takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from quarantine.core.fleet import DrainPace, Workloads
from quarantine.core.response import Moment, Response

PAGE = (Path(__file__).parents[2] / "docs/draining.md").read_text(encoding="utf-8")
SNIPPETS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_each_snippet_is_taken() -> None:
    policy, defaults, workloads, pace = SNIPPETS
    responses = [policy["response"], *(severity["response"] for severity in defaults["severities"].values())]
    drains = [Response.model_validate(response).drain for response in responses]
    assert [str(drain.when) for drain in drains] == ["after-checkpoint", "when-idle", "on-restart", "now"]
    assert Workloads.model_validate(workloads["workloads"]).checkpoint.query is not None
    assert DrainPace.model_validate(pace["drain"]) == DrainPace(), "the page shows what holds where nothing is said"


def test_each_moment_is_explained() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)[1:] == [str(moment) for moment in Moment]
