"""Moments as people write them, and what they are told where that can mean none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.cli.when import begun, past
from quarantine.core.errors import UsageError
from tests.ledger.samples import NOW


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOW),
        ("30d", NOW - timedelta(days=30)),
        ("-30d", NOW - timedelta(days=30)),
        ("400d", NOW - timedelta(days=400)),
        ("6w", NOW - timedelta(weeks=6)),
        ("1d12h", NOW - timedelta(hours=36)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01 12:30", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("2026-11-01T12:30:00Z", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("2026-11-01T12:30:00+02:00", datetime(2026, 11, 1, 10, 30, tzinfo=UTC)),
        ("2026-W44-7", datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_what_is_meant(text: str, meant: datetime) -> None:
    assert begun(text, "--since", NOW) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2y", "a month or a year has no fixed length; write it in days, such as 365d"),
        ("1mo", "write it in days"),
        ("6 months", "write it in days"),
        ("30", "is no time: write for instance 2026-11-01, 2026-11-01T12:00:00Z, -30d or now"),
        ("", "is no time"),
        ("-", "is no duration"),
        ("2026-13-01", "is no time"),
        ("last week", "is no time"),
        ("999999999d", "lies beyond the times that there are"),
        ("2027-01-01", "that is in the future; it is 2026-11-29T12:00:00Z now"),
    ],
)
def test_what_cannot_be_meant(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        begun(text, "--since", NOW)
    assert str(caught.value).startswith("--since ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text() | st.from_regex(r"-?[0-9]{0,10}[wdhmsy]{1,2}", fullmatch=True))
def test_any_text_is_a_moment_or_a_sentence(text: str) -> None:
    try:
        found = past(text, "--until", NOW)
    except UsageError:
        return
    assert found.utcoffset() == timedelta(0)
