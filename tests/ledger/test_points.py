"""The points of a trace, packed: they come back whatever they are, are short, and damage is told with its place."""

from __future__ import annotations

import math
import random
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.decision import Decision
from quarantine.core.errors import SchemaMismatch
from quarantine.core.record.trace import Points, Trace
from quarantine.ledger import trail
from quarantine.ledger.codec import decode, decode_as, dump, encode, plain
from quarantine.ledger.points import pack, unpack
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import CLUSTER, NOW, evidence, now, quarantined

EIGHT = timezone(timedelta(hours=8))
TIME = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.sampled_from([UTC, EIGHT]))  # noqa: DTZ001
NUMBER = st.floats(allow_nan=True, allow_infinity=True)
ANY = st.lists(st.tuples(TIME, NUMBER), max_size=20).map(tuple)


def every(step: timedelta, *values: float) -> Points:
    return tuple((NOW + n * step, value) for n, value in enumerate(values))


def told(points: Points) -> list[tuple[datetime, str]]:
    """So that NaN equals NaN, and -0.0 is not 0.0."""
    return [(at.astimezone(UTC), repr(value)) for at, value in points]


def deciding(points: Points) -> Decision:
    trace = Trace("x{}[30m]", points, raw=True, bound=78.0, since=NOW)
    return replace(quarantined(1), evidence=replace(evidence(), trace=trace))


@settings(deadline=None)
@given(points=ANY)
def test_they_come_back_whatever_they_are(points: Points) -> None:
    assert told(unpack(pack(points))) == told(points)
    trace = Trace("q", points)
    assert told(decode_as(Trace, encode(trace)).points) == told(points)


@settings(deadline=None)
@given(values=st.lists(NUMBER, min_size=1, max_size=60), step=st.integers(1, 10**7), jitter=st.integers(-3, 3))
def test_so_do_those_of_even_steps(values: list[float], step: int, jitter: int) -> None:
    points = every(timedelta(milliseconds=step), *values)
    odd = (*points[:-1], (points[-1][0] + timedelta(milliseconds=jitter), points[-1][1]))
    assert told(unpack(pack(odd))) == told(odd)


def test_a_decision_holds_them_as_one_short_text() -> None:
    made = deciding(every(timedelta(seconds=30), 71.0, math.nan, math.inf, -math.inf, -0.0))
    text = encode(made)
    assert '"points":"z1:' in text
    read = decode(text)
    assert read.evidence is not None
    assert read.evidence.trace is not None
    assert made.evidence is not None
    assert made.evidence.trace is not None
    assert told(read.evidence.trace.points) == told(made.evidence.trace.points)
    assert encode(read) == text


def test_a_trace_without_points_says_nothing_of_them() -> None:
    trace = Trace("", note="what is absent has no values to show")
    assert "points" not in encode(trace)
    assert decode_as(Trace, encode(trace)) == trace
    assert unpack(pack(())) == ()


@pytest.mark.parametrize(("digits", "most"), [(0, 500), (1, 800), (2, 1000)])
def test_240_points_of_a_gauge_that_moves_slowly_take_less_than_a_kilobyte(digits: int, most: int) -> None:
    dice, value, points = random.Random(1), 78.0, []  # noqa: S311
    for n in range(240):
        value += dice.uniform(-0.3, 0.3)
        late = timedelta(milliseconds=dice.choice([0, 0, 0, 1, 2]))  # Prometheus scrapes nearly on time
        points.append((NOW + n * timedelta(seconds=15) + late, round(value, digits)))
    assert len(pack(tuple(points))) < most


def packed(text: str, level: int = 9) -> str:
    return "z1:" + b64encode(zlib.compress(text.encode(), level)).decode()


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_another_zlib_makes_another_text_of_the_same_points(level: int) -> None:
    points = every(timedelta(seconds=30), 71.0, 71.5)
    inside = zlib.decompress(b64decode(pack(points).removeprefix("z1:"))).decode()
    assert unpack(packed(inside, level)) == points


SOUND = pack(every(timedelta(seconds=30), *map(float, range(40))))


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ("", "no points that this version can read"),
        ("z2:" + SOUND[3:], "no points that this version can read"),
        ([["2026-11-29T12:00:00Z", 71.0]], "no points that this version can read"),
        (SOUND[:-8], "cut off"),
        (SOUND[:40] + ("A" if SOUND[40] != "A" else "B") + SOUND[41:], "unpack"),
        (SOUND[:-2] + "é=", "unpack"),
        ("z1:" + b64encode(b64decode(SOUND[3:]) + b"more").decode(), "stands behind"),
        (packed("ms\n1,2\n1"), "zip"),
        (packed("ms\n1\n1,2"), "zip"),
        (packed("ms\none\n1"), "invalid literal"),
        (packed("ms\n1\nwarm"), "could not convert"),
        (packed("h\n1\n1"), "'h' is no unit of time"),
        (packed("ms\n1"), "not enough values"),
        (packed("ms\n\n1"), "invalid literal"),
        (packed("ms\n1" + "0" * 30 + "\n1"), "too large|days"),
        (packed("0" * (17 * 1024**2)), "cut off"),
    ],
)
def test_damage_is_told_with_its_field(damaged: object, said: str) -> None:
    data = plain(deciding(every(timedelta(seconds=30), 71.0)))
    data["evidence"]["trace"]["points"] = damaged
    with pytest.raises(ValueError, match=rf"Decision.evidence: Evidence.trace: Trace.points: .*({said})"):
        decode(dump(data))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        pack(((NOW.replace(tzinfo=None), 1.0),))


def test_a_trail_is_sound_whatever_its_points_unpack_to(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain is over the text as it was stored: nothing is unpacked or packed again to check it."""

    def odd(record: object) -> str:
        return encode(record).replace('"points":"z1:', '"points":"z9:')

    monkeypatch.setattr(trail, "encode", odd)
    with open_ledger(sqlite, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("t"), [deciding(every(timedelta(seconds=30), 71.0))])
        assert isinstance(ledger.verify(), Sound)
        with pytest.raises(SchemaMismatch, match=r"decision 1 .*Trace.points: 'z9:.*audit verify"):
            list(ledger.decisions())
