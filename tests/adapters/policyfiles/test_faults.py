"""How faults are printed."""

from __future__ import annotations

import json
from dataclasses import asdict

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults, format_faults

PLAIN = Fault("policies/a.yaml", 3, 7, "spec.owner is missing", "Who answers for it")
NASTY = Fault("po,li:cies\n/a\udcff.yaml", 1, 1, "100% of \x1b[31mred\r\n::error::")


def test_text_is_what_editors_and_people_read() -> None:
    assert format_faults([PLAIN]) == "policies/a.yaml:3:7: spec.owner is missing\n    hint: Who answers for it"
    assert format_faults([]) == ""


def test_nothing_in_a_fault_moves_the_cursor_or_makes_a_second_line() -> None:
    text = format_faults([NASTY, PLAIN])
    assert text.split("\n")[0] == "po,li:cies\\n/a\\udcff.yaml:1:1: 100% of \\x1b[31mred\\r\\n::error::"
    assert len(text.split("\n")) == 3
    text.encode()


def test_json_has_every_field() -> None:
    assert json.loads(format_faults([PLAIN], "json")) == [asdict(PLAIN)]
    assert json.loads(format_faults([], "json")) == []
    nasty = format_faults([NASTY], "json")
    nasty.encode()
    assert json.loads(nasty)[0]["message"] == NASTY.message


def test_github_annotations_are_one_command_each() -> None:
    assert format_faults([PLAIN, NASTY], "github").split("\n") == [
        "::error file=policies/a.yaml,line=3,col=7::spec.owner is missing — Who answers for it",
        "::error file=po%2Cli%3Acies\\n/a\\udcff.yaml,line=1,col=1::100%25 of \\x1b[31mred\\r\\n::error::",
    ]


def test_the_error_says_the_first_and_how_many_more() -> None:
    assert str(PolicyFaults([PLAIN])) == str(PLAIN)
    assert str(PolicyFaults([PLAIN, NASTY])) == f"{PLAIN} (and 1 more fault)"
    assert str(PolicyFaults([PLAIN, NASTY, NASTY])) == f"{PLAIN} (and 2 more faults)"
