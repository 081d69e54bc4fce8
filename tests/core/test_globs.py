"""Patterns of models, against what they match."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.globs import covers, matches, overlap

PATTERNS = st.text("ab*", max_size=5)
TEXTS = ["".join(letters) for size in range(7) for letters in product("abc", repeat=size)]


def matched(pattern: str) -> set[str]:
    regex = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    return {text for text in TEXTS if regex.fullmatch(text)}


@given(PATTERNS)
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str) -> None:
    assert {text for text in TEXTS if matches(pattern, text)} == matched(pattern)


def test_no_model_name_takes_longer_than_another() -> None:
    # With a backtracking engine this would not end within the life of the machine.
    assert not matches("*a" * 40 + "*b", "a" * 100_000)
    assert matches("*a" * 40 + "*b", "a" * 100_000 + "b")


@given(PATTERNS, PATTERNS)
def test_covers_is_that_all_texts_of_one_are_texts_of_the_other(wide: str, narrow: str) -> None:
    # A letter that neither pattern has, in texts longer than either's letters, stands for all others.
    if covers(wide, narrow):
        assert matched(narrow) <= matched(wide)
    elif sum(c != "*" for c in narrow) + narrow.count("*") < 6:
        assert not matched(narrow) <= matched(wide)


@given(PATTERNS, PATTERNS)
def test_overlap_is_that_some_text_is_of_both(one: str, other: str) -> None:
    if matched(one) & matched(other):
        assert overlap(one, other)
    elif sum(c != "*" for c in one + other) < 6:
        assert not overlap(one, other)


def test_models_as_people_write_them() -> None:
    assert covers("NVIDIA A100*", "NVIDIA A100-SXM4-80GB")
    assert not covers("NVIDIA A100-SXM4-80GB", "NVIDIA A100*")
    assert overlap("*H100*", "NVIDIA*")
    assert overlap("*H100*", "*A100"), "H100 or A100"
    assert not overlap("NVIDIA H100*", "NVIDIA A100*")
