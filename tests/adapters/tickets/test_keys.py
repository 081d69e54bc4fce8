"""What is a key, and what an attachment is called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters.tickets.keys import checked, file_name
from quarantine.core.errors import TicketsRefused


@pytest.mark.parametrize("key", ["a", "gpu-017-a3-replace-2", "0" * 200])
def test_a_key_is_taken_as_it_is(key: str) -> None:
    assert checked(key) == key


@pytest.mark.parametrize("key", ["", "-a", "A", "a b", "a\n", "a/../b", "ü", "0" * 201, "x" * 5000])
def test_what_is_no_key_is_refused_in_one_short_line(key: str) -> None:
    with pytest.raises(TicketsRefused, match="is no key of a ticket") as raised:
        checked(key)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("chart.png", "chart.png"),
        ("../../etc/passwd", "etc-passwd"),
        ("a\r\nb .svg", "a-b-.svg"),
        ("...", "attachment"),
    ],
)
def test_an_attachment_has_a_name_of_ours(name: str, ours: str) -> None:
    assert file_name(name) == ours


@given(st.text(max_size=200))
def test_no_name_leads_elsewhere(name: str) -> None:
    ours = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", ours)
    assert file_name(ours) == ours
