"""The letter of a case: what it says, and that nothing from outside becomes markup or another line of it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarantine.adapters.tickets.letter import TITLE_MAX, letter
from quarantine.core.letters import CaseReport

Maker = Callable[..., CaseReport]


def test_both_bodies_say_which_machine_what_is_wrong_and_what_is_asked(make_report: Maker) -> None:
    said = letter(
        make_report(
            assets=(("rack", "B12"),),
            evidence_output="s3://bucket/x",
            tried=("reset by r: failed",),
            earlier=("R-20251101-gpu-017-9c",),
        )
    )

    for body in (said.markdown, said.text):
        assert "Please take this report of a suspect machine" in body
        for fact in (
            "acme://zone-2/i-0abc",
            "91.5 °C",
            "2026-11-29 03:05:05 UTC",
            "B12",
            "gpu-017-a3",
            "s3://bucket/x",
            "R-20251101-gpu-017-9c",
        ):
            assert fact in body
        assert "reset by r: failed" in body


def test_nothing_of_the_workload_leaves(make_report: Maker) -> None:
    said = letter(make_report())

    for secret in ("secret-project", "llm-900b", "4711"):
        assert secret not in said.markdown + said.text


def test_a_case_without_measurement_says_so(make_report: Maker) -> None:
    said = letter(make_report(faults=()))

    assert "opened by a person" in said.markdown
    assert "opened by a person" in said.text


def test_markup_and_mentions_are_escaped(make_report: Maker) -> None:
    said = letter(make_report(reason="@team <b>x</b> [a](http://evil.example)", assets=(("[n](x)", "`v`"),)))

    assert "<b>" not in said.markdown
    assert "@team" not in said.markdown
    assert "[a](" not in said.markdown
    assert "[n](" not in said.markdown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_a_title_is_one_short_line_whatever_it_was(make_report: Maker, title: str) -> None:
    said = letter(make_report(title=title))

    assert 0 < len(said.title) <= TITLE_MAX
    assert len(said.title.splitlines()) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_a_value_forges_no_line_of_the_text(make_report: Maker, hostile: str) -> None:
    plain = letter(make_report(reason="x", swap="x")).text
    said = letter(make_report(reason=hostile + "x", swap=hostile + "x")).text

    assert len(said.splitlines()) == len(plain.splitlines())
