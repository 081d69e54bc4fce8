"""docs/grafana.md: settings that there are, marks of the dashboards, tags as they are made, and figures of the code."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from quarantine import annotating
from quarantine.adapters import grafana
from quarantine.core import annotations as shown
from quarantine.core.annotations import of_cases
from quarantine.core.case import Phase
from quarantine.core.decision import State
from quarantine.core.state import fold
from quarantine.settings.outward import Grafana
from tests.ledger.samples import NOW, quarantined

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/grafana.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())


def test_each_setting_is_told() -> None:
    table = PAGE.partition("| Setting |")[2].partition("\n\n")[0]
    told = {row.split("|")[1].strip(" `") for row in table.splitlines()[2:]} | {"token"}
    assert told == set(Grafana.model_fields)
    assert "`token` instead of the file" in table


def test_each_mark_is_told() -> None:
    for file in (ROOT / "k8s/monitoring/dashboards").glob("*.json"):
        for mark in json.loads(file.read_text(encoding="utf-8"))["annotations"]["list"]:
            assert f"*{mark['name']}*" in FLAT


def test_the_tags_are_those_of_a_case() -> None:
    (case,) = fold(State(), [quarantined()]).cases.values()
    (made,) = of_cases(State(cases={case.id: case}), "lab", NOW)
    table = PAGE.partition("| tag |")[2].partition("\n\n")[0]
    told = [name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z]+)(?::[^`]+)?`", row.split("|")[1])]
    assert [tag.partition(":")[0] for tag in made.tags] == told
    ends = {phase for phase in Phase if not replace(case, phase=phase).open}
    assert ends == {Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED}


def test_the_figures_are_those_of_the_code() -> None:
    assert f"every {annotating.LONGER_EVERY // timedelta(minutes=1)} minutes" in FLAT
    assert f"newest {shown.MOST_MOMENTS} of what followed" in FLAT
    assert f"looked for {annotating.SETTLES.seconds} seconds later" in FLAT
    assert f"At most {annotating.AT_ONCE} annotations" in FLAT
    seconds = f"in at most {annotating.WITHIN.seconds} seconds and one more request of {grafana._WHOLE:g}"
    assert seconds in FLAT
    assert f"up to {annotating.LONGEST_REST // timedelta(minutes=1)} minutes" in FLAT
    assert timedelta(days=1) == shown.KEPT
    assert f"cut at {shown.LONGEST_TAG} characters" in FLAT
    assert f"the {shown.LONGEST_TAGS} bytes" in FLAT


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
