"""docs/tickets/{github,jira}.md: options that there are, examples that are taken, and figures of the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from quarantine.adapters.tickets import github, jira
from quarantine.adapters.tickets.github.issues import GitHubIssues, label_of
from quarantine.adapters.tickets.github.options import GitHubOptions
from quarantine.adapters.tickets.jira.document import LARGEST
from quarantine.adapters.tickets.jira.issues import JiraIssues
from quarantine.adapters.tickets.jira.options import JiraOptions
from quarantine.adapters.tickets.jira.words import Words
from quarantine.adapters.tickets.targets import Connect, Context
from quarantine.core.tickets import TicketState

FOLDER = Path(__file__).parents[2] / "docs/tickets"
GITHUB, JIRA = ((FOLDER / f"{kind}.md").read_text(encoding="utf-8") for kind in ("github", "jira"))


@pytest.mark.parametrize(("page", "model"), [(GITHUB, GitHubOptions), (JIRA, JiraOptions)])
def test_each_option_is_told(page: str, model: type[BaseModel]) -> None:
    table = page[page.index("| Option |") : page.index("**Permissions.**")]
    told = {name for line in table.splitlines()[2:] if line for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert told == model.model_fields.keys() - {"token"}
    assert "`token` instead of the file" in table


@pytest.mark.parametrize(
    ("page", "kind", "connect"), [(GITHUB, "github", github.connect), (JIRA, "jira", jira.connect)]
)
def test_the_example_is_taken(page: str, kind: str, connect: Connect) -> None:
    (snippet,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    settings: dict[str, Any] = yaml.safe_load(snippet)["tickets"]
    options: dict[str, Any] = settings["targets"][settings["default"]]
    assert options.pop("kind") == kind
    connect(
        options, Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    )


def test_the_figures_are_those_of_the_code() -> None:
    assert f"at most {LARGEST:,} characters" in " ".join(JIRA.split())
    assert f"again for {JiraIssues.settles.seconds // 60} minutes" in " ".join(JIRA.split())
    assert GitHubIssues.settles.seconds == 60
    assert len(label_of("x" * 100)) <= 50


def test_each_label_of_github_is_told() -> None:
    told = set(re.findall(r"`provider/([a-z-]+)`", GITHUB))
    assert told == set(TicketState) - {TicketState.FILED}


def test_the_resolutions_are_read_as_told() -> None:
    rows = re.findall(r"^\| Done, with the resolution (.+) \| `([a-z-]+)` \|$", JIRA, re.MULTILINE)
    assert len(rows) == 2
    for names, state in rows:
        for name in re.split(r", | or ", names):
            assert Words({}).state("Done", "done", name) == state
