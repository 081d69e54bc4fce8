"""One text for one record, and the record back from it, whatever the text, the number or the time."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Effect, EffectState, EffectStatus, Evidence, Finding, HeldBy, Phase
from quarantine.core.decision import Action, BudgetState, Decision, Dismissal, Hold, Kind, Request, RequestKind
from quarantine.core.model import Device, DeviceKind, Machine, Severity, Verdict
from quarantine.core.record.trace import Trace
from quarantine.ledger.chain import GENESIS, link
from quarantine.ledger.codec import decode, decode_as, dump, encode, partly, plain
from quarantine.ledger.text import NAME, escape, fit, storable, unescape
from tests.ledger.samples import NOW, device, evidence, held, quarantined

NASTY = st.sampled_from(
    ["\x00", "\ud800", "\udc00", "\udfff", "💥", "\\", '"', "\u2028", "\\u0000", "é", "NaN", "\r\n"]
)
ANY_CHARACTER = st.characters(exclude_categories=())  # lone surrogates included
TEXT = st.lists(st.one_of(NASTY, st.text(ANY_CHARACTER, max_size=8)), max_size=6).map("".join)
NUMBER = st.floats(allow_nan=True, allow_infinity=True)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(timedelta(hours=-3, minutes=-30))])
TIME = st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30), timezones=ZONES)  # noqa: DTZ001  (bounds are naive)
MAYBE_TEXT = st.none() | TEXT

DEVICE = st.builds(Device, st.sampled_from(DeviceKind), TEXT, TEXT)
MACHINE = st.builds(Machine, TEXT, TEXT, TEXT, TEXT)
TRACE = st.builds(
    Trace,
    query=TEXT,
    points=st.lists(st.tuples(TIME, NUMBER), max_size=4).map(tuple),
    raw=st.booleans(),
    bound=st.none() | NUMBER,
    above=st.booleans(),
    since=st.none() | TIME,
    note=TEXT,
)
EVIDENCE = st.builds(
    Evidence,
    query=TEXT,
    value=st.none() | NUMBER,
    unit=TEXT,
    threshold=TEXT,
    at=TIME,
    labels=st.dictionaries(TEXT, TEXT, max_size=4),
    covered=st.none() | st.integers(),
    others=st.dictionaries(TEXT, NUMBER, max_size=3),
    note=TEXT,
    trace=st.none() | TRACE,
)
BUDGET = st.builds(BudgetState, TEXT, *[st.integers(0, 2**70)] * 7, spares=st.none() | st.integers(0, 2**70))
DECISION = st.builds(
    Decision,
    at=TIME,
    kind=st.sampled_from(Kind),
    action=st.sampled_from(Action),
    reason=TEXT,
    actor=TEXT,
    node=MAYBE_TEXT,
    machine=st.none() | MACHINE,
    case=MAYBE_TEXT,
    phase=st.none() | st.sampled_from(Phase),
    device=st.none() | DEVICE,
    policy=MAYBE_TEXT,
    policy_hash=MAYBE_TEXT,
    policy_revision=MAYBE_TEXT,
    severity=st.none() | st.sampled_from(Severity),
    verdict=st.none() | st.sampled_from(Verdict),
    held_by=st.none() | st.sampled_from(HeldBy),
    hold_key=TEXT,
    evidence=st.none() | EVIDENCE,
    budget=st.none() | BUDGET,
    effects=st.lists(st.sampled_from(Effect), max_size=4).map(tuple),
    effect=st.none() | st.sampled_from(Effect),
    ref=TEXT,
    cordoned_by_us=st.none() | st.booleans(),
    request=MAYBE_TEXT,
    pool=TEXT,
    until=st.none() | TIME,
)
FINDING = st.builds(
    Finding,
    policy=TEXT,
    device=DEVICE,
    severity=st.sampled_from(Severity),
    since=TIME,
    verdict=st.sampled_from(Verdict),
    evidence=EVIDENCE,
    earlier=st.lists(TIME, max_size=3).map(tuple),
)
CASE = st.builds(
    Case,
    id=TEXT,
    node=TEXT,
    machine=MACHINE,
    phase=st.sampled_from(Phase),
    opened_at=TIME,
    phase_since=TIME,
    findings=st.lists(FINDING, max_size=3).map(tuple),
    opened_by=TEXT,
    reason=TEXT,
    held_by=st.none() | st.sampled_from(HeldBy),
    effects=st.dictionaries(st.sampled_from(Effect), st.builds(EffectState, st.sampled_from(EffectStatus), TEXT)),
    cordoned_by_us=st.none() | st.booleans(),
    pool=TEXT,
)
DISMISSAL = st.builds(Dismissal, TEXT, MACHINE, st.lists(st.tuples(TEXT, DEVICE), max_size=3).map(tuple), TIME, TEXT)
HOLD = st.builds(Hold, TEXT, st.sampled_from(HeldBy), TEXT, TIME)
REQUEST = st.builds(Request, TEXT, st.sampled_from(RequestKind), TEXT, TEXT, TEXT, TEXT, TIME)


def flat(value: Any) -> Any:
    """A record as nested lists that compare by meaning: NaN equals NaN, a device's index counts, so does a type."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(flat(getattr(value, f.name)) for f in fields(value))]
    if isinstance(value, Mapping):
        return {str(flat(k)): flat(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [flat(part) for part in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, str):  # a pair of surrogates is the character that it spells
        return [type(value).__name__, value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")]
    return repr(value)


@settings(deadline=None)
@given(record=st.one_of(DECISION, DECISION, CASE, DISMISSAL, HOLD, REQUEST))
def test_every_record_comes_back(record: Any) -> None:
    text = encode(record)
    read = decode_as(type(record), text)
    assert flat(read) == flat(record)
    assert encode(read) == text


@settings(deadline=None)
@given(record=st.one_of(DECISION, DECISION, CASE, DISMISSAL, HOLD, REQUEST))
def test_what_is_written_at_once_is_what_json_makes_of_it(record: Any) -> None:
    """Two ways to one text: the second time, parts of a case are remembered."""
    assert encode(record) == dump(plain(record))
    assert encode(record) == dump(plain(record))
    if isinstance(record, Decision):
        names = frozenset({"kind", "machine", "device", "verdict", "reason", "pool"})
        assert partly(record, names) == {name: value for name, value in plain(record).items() if name in names}


@settings(deadline=None)
@given(record=DECISION)
def test_the_text_is_canonical_json_that_both_databases_can_hold(record: Decision) -> None:
    text = encode(record)
    assert text.isascii()
    assert "\x00" not in text
    assert "\n" not in text

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    data = json.loads(text, parse_constant=refuse)
    assert json.dumps(data, sort_keys=True, separators=(",", ":")) == text


def test_the_text_does_not_depend_on_the_order_of_labels_or_the_zone() -> None:
    one = replace(quarantined(1), evidence=replace(evidence(), labels={"b": "2", "a": "1"}))
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    two = replace(one, at=elsewhere, evidence=replace(evidence(), labels={"a": "1", "b": "2"}))
    assert encode(one) == encode(two)


def test_the_text_and_the_hash_of_today_are_those_of_every_later_version() -> None:
    """Changing this format breaks every chain that exists. It may gain fields with empty defaults, and nothing else."""
    decision = Decision(
        at=NOW,
        kind=Kind.HELD,
        action=Action.QUARANTINE,
        reason="a\x00\ud800",
        actor="controller 0.1.0",
        device=Device(DeviceKind.GPU, "GPU-1", "3"),
        held_by=HeldBy.BUDGET,
        evidence=Evidence("up", math.nan, "°C", "", NOW),
        effects=(Effect.MARK,),
    )
    text = (
        '{"action":"quarantine","actor":"controller 0.1.0","at":"2026-11-29T12:00:00.000000Z",'
        '"device":{"index":"3","kind":"gpu","name":"GPU-1"},"effects":["mark"],'
        '"evidence":{"at":"2026-11-29T12:00:00.000000Z","query":"up","threshold":"","unit":"\\u00b0C","value":"NaN"},'
        '"held_by":"budget","kind":"held","reason":"a\\u0000\\ud800"}'
    )
    assert encode(decision) == text
    assert link(GENESIS, "training-a", 1, text) == "2f3a2df176eddbf208d69ef9de2c02900783e00eb91f0385dff152cc76d1492c"


def test_each_part_of_a_row_is_in_its_hash() -> None:
    whole = link(GENESIS, "a", 1, "{}")
    others = {link("1" * 64, "a", 1, "{}"), link(GENESIS, "b", 1, "{}"), link(GENESIS, "a", 2, "{}")}
    assert whole not in others | {link(GENESIS, "a", 1, "{} ")}
    assert link(GENESIS, "a\n1", 1, "{}") != link(GENESIS, "a", 1, "1\n{}")


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    assert decode(encode(held("x"))[:-1] + ',"zeal":7}') == held("x")


def test_what_was_written_before_a_field_existed_is_read_with_its_empty_default() -> None:
    case = Case("c", "n", Machine("u"), Phase.SUSPECTED, NOW, NOW, (_finding(),), "controller", "r")
    text = encode(case)
    assert "earlier" not in text
    assert "others" not in text
    assert decode_as(Case, text) == case
    taken = encode(quarantined(1))
    assert "spares" not in taken
    assert decode(taken).budget == BudgetState("gpu", 1000, 3, 5, 1, 50, 100, 20, spares=None)


def _finding() -> Finding:
    return Finding("gpu-hot", device(), Severity.CRITICAL, NOW, Verdict.BAD, evidence())


def test_an_integer_where_a_number_belongs_is_that_number() -> None:
    read = decode(encode(replace(quarantined(1), evidence=evidence(78))))
    assert read.evidence is not None
    assert repr(read.evidence.value) == "78.0"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"kind":"decided"', '"kind":"guessed"', "Decision.kind: 'guessed'"),
        ('"reason":', '"treason":', "reason"),
        ('"node":"node-1"', '"node":7', "Decision.node: 7 is no str"),
        ('"covered":8000', '"covered":true', "Decision.evidence: Evidence.covered: True is no int"),
        ('"value":91.5', '"value":NaN', "NaN is no JSON"),
        ('"value":91.5', '"value":"warm"', "Evidence.value: 'warm' is no number"),
        ('"at":"2026-11-29T12:00:00.000000Z"', '"at":"2026-11-29T12:00:00"', "no time zone"),
        ('"effects":["mark"', '"effects":["march"', "march"),
        ('"device":{', '"device":[{', "Expecting"),
        ('"labels":{', '"labels":' + '{"a":' * 100_000 + "{", "nested too deeply|Expecting"),
    ],
)
def test_a_text_that_is_no_decision_is_refused_with_the_field(old: str, new: str, said: str) -> None:
    text = encode(quarantined(1))
    assert old in text
    with pytest.raises(ValueError, match=said):
        decode(text.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "null", "[]", '"x"', "{}", "{", "\x00"])
def test_what_is_no_record_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        encode(replace(held("x"), at=NOW.replace(tzinfo=None)))


def test_the_index_of_a_device_is_kept_although_it_does_not_count() -> None:
    read = decode(encode(quarantined(5)))
    assert read.device is not None
    assert (read.device, read.device.index) == (device(5), "5")


@settings(deadline=None)
@given(text=TEXT)
def test_escaped_text_can_be_stored_and_comes_back(text: str) -> None:
    stored = escape(text)
    stored.encode("utf-8")
    assert "\x00" not in stored
    assert unescape(stored) == text
    if "\\" not in text and stored == text:
        assert storable(text) == text
    storable(text).encode("utf-8")


@settings(deadline=None)
@given(one=TEXT, two=TEXT, padding=st.integers(0, 2 * NAME))
def test_fitted_text_is_bounded_and_two_stay_two(one: str, two: str, padding: int) -> None:
    left, right = "x" * padding + one, "x" * padding + two
    assert len(fit(left)) <= NAME
    assert (fit(left) == fit(right)) == (left == right)
