"""docs/pager.md: options that there are, and figures of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from quarantine.adapters.pager import pagerduty
from quarantine.adapters.pager.alertmanager import AlertmanagerOptions
from quarantine.adapters.pager.pagerduty import PagerDutyOptions
from quarantine.core.alarms import Urgency

PAGE = (Path(__file__).parents[2] / "docs/pager.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "model"), [("PagerDuty", PagerDutyOptions), ("Alertmanager", AlertmanagerOptions)])
def test_each_option_is_told(kind: str, model: type[BaseModel]) -> None:
    table = PAGE[PAGE.index(f"## {kind}") :].partition("| Option |")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    told |= set(re.findall(r"`(\w+)` instead of the file", table))
    assert told == set(model.model_fields)


def test_the_figures_are_those_of_the_code() -> None:
    page = " ".join(PAGE.split())
    options = AlertmanagerOptions(urls=("https://alertmanager.example",))
    assert f"said again; {options.repeat.seconds // 60} minute unless" in page
    assert f"that; {options.ends_after.seconds // 60} minutes unless" in page
    assert f"cut at {pagerduty._SUMMARY:,} characters" in page
    assert f"at most {pagerduty._DETAILS} details of {pagerduty._VALUE} characters" in page
    assert f"more than {pagerduty._KEY} characters" in page


def test_the_urgencies_are_told() -> None:
    assert ", ".join(f"`{urgency}`" for urgency in Urgency) in PAGE
