"""Large mappings and sets that change by one entry are as dicts and frozensets, and nothing before them changes."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import overlay
from quarantine.core.overlay import Grown, Overlay, having, including

CHANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(), st.booleans()), max_size=60)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "SMALL", 3)


@given(given_=st.dictionaries(st.integers(0, 30), st.integers(), max_size=20), changes=CHANGES)
def test_a_mapping_is_what_a_dict_would_be(given_: dict[int, int], changes: list[tuple[int, int, bool]]) -> None:
    mapping: Mapping[int, int] = given_
    expected = dict(given_)
    versions: list[tuple[Mapping[int, int], dict[int, int]]] = []
    for key, value, walked in changes:
        mapping = having(mapping, key, value)
        expected = {**expected, key: value}
        versions.append((mapping, expected))
        if walked:
            assert list(mapping.items()) == list(expected.items())
    for version, meant in versions:
        assert version == meant
        assert meant == version
        assert {**version} == meant
        assert list(version) == list(version.keys()) == list(meant)
        assert list(version.values()) == list(meant.values())
        assert len(version) == len(meant)
        assert repr(version) == repr(meant)
        assert all((key in version) == (key in meant) and version.get(key) == meant.get(key) for key in range(31))


@given(members=st.frozensets(st.integers(0, 30), max_size=20), more=st.lists(st.integers(0, 40), max_size=60))
def test_a_set_is_what_a_frozenset_would_be(members: frozenset[int], more: list[int]) -> None:
    grown: Set[int] = members
    expected = members
    versions: list[tuple[Set[int], frozenset[int]]] = []
    for new in more:
        grown, expected = including(grown, new), expected | {new}
        versions.append((grown, expected))
    for version, meant in versions:
        assert version == meant
        assert meant == version
        assert len(version) == len(meant)
        assert sorted(version) == sorted(meant)
        assert all((member in version) == (member in meant) for member in range(41))
        assert version & {1, 2, 3} == meant & {1, 2, 3}


def test_what_is_small_stays_plain() -> None:
    assert type(having({1: 1}, 2, 2)) is dict
    assert type(including(frozenset({1}), 2)) is frozenset


def test_a_fold_over_many_copies_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: ten thousand changes of ten thousand entries make a whole of them now and then."""
    made: list[Overlay[int, int]] = []
    whole = Overlay._all

    def counted(self: Overlay[int, int]) -> Mapping[int, int]:
        made.append(self)
        return whole(self)

    monkeypatch.setattr(Overlay, "_all", counted)
    mapping: Mapping[int, int] = dict.fromkeys(range(10_000), 0)
    members: Set[int] = frozenset(range(10_000))
    for number in range(10_000):
        mapping = having(mapping, number, 1)
        members = including(members, 10_000 + number)
    assert len(made) <= 100
    assert isinstance(mapping, Overlay)
    assert isinstance(members, Grown)
    assert set(mapping.values()) == {1}
    assert len(members) == 20_000
