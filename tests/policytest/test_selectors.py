"""Series and matchers: PromQL's own, read and refused as such; placeholders stand for what machines have."""

from __future__ import annotations

import pytest

from quarantine.policytest.format import Machines
from quarantine.policytest.selectors import NAME, address, expand, parse_matchers, parse_series, written

SERIES = {NAME: "m", "node": "node-1", "gpu": "3"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("m", True),
        ("n", False),
        ('{node="node-1"}', True),
        ('m{node="node-1",gpu!="3"}', False),
        ('m{gpu=~"[1-3]"}', True),
        ('m{gpu=~"[1-3]x?|9"}', True),
        ('m{node=~"node"}', False),  # anchored
        ('m{node!~"node-[2-9]"}', True),
        ('m{absent=""}', True),
        ('m{absent!=""}', False),
        ('{__name__=~"m|k"}', True),
    ],
)
def test_matchers_match_as_in_promql(text: str, matches: bool) -> None:
    assert parse_matchers(text).match(SERIES) is matches


@pytest.mark.parametrize(
    "text",
    ["", "(" * 5000, "m{", "m[5m]", "m offset 5m", "rate(m[5m])", "m + 1", 'm{a=~"("}', "{}", 'm{a="1" or b="2"}', "7"],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no selector|no regular expression|more than 1000 characters"):
        parse_matchers(text)


def test_a_series_is_its_labels() -> None:
    labels = parse_series('m{a="1",b="x y"}')
    assert labels == {NAME: "m", "a": "1", "b": "x y"}
    assert written(labels) == 'm{a="1",b="x y"}'
    assert written({NAME: "m"}) == "m"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{a="1"}', "no metric name"),
        ('m{a!="1"}', 'write a="…"'),
        ('m{a="1",a="2"}', "label a twice"),
        ('m{a="$host"}', r"placeholder \$host: known are \$node"),
    ],
)
def test_what_is_no_series_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_series(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("m", 1),
        ('m{n="$node"}', 2),
        ('m{n="$address:9100"}', 2),
        ('m{n="$node",u="$gpu",i="$index"}', 6),
        ('m{n="$node",d="$hca",port="1"}', 8),
        ('m{u="$gpu",l="$link"}', 30),
        ('m{u="$gpu",d="$hca"}', 24),
    ],
)
def test_a_placeholder_stands_for_each_of_its_kind(text: str, count: int) -> None:
    found = list(expand(parse_series(text), Machines(count=2, gpus=3, ports=4, links=5)))
    assert len(found) == count
    assert len({written(labels) for labels in found}) == count
    assert not any("$" in written(labels) for labels in found)


def test_what_they_stand_for() -> None:
    text = 'm{a="$node",b="$address:9100",c="$gpu",d="$index",e="$hca",f="$link"}'
    first, *_, last = expand(parse_series(text), Machines(count=2, gpus=2, ports=2, links=2))
    assert list(first.values())[1:] == ["node-1", "10.0.0.1:9100", "GPU-1-0", "0", "mlx5_0", "0"]
    assert list(last.values())[1:] == ["node-2", "10.0.0.2:9100", "GPU-2-1", "1", "mlx5_1", "1"]


def test_addresses_are_distinct() -> None:
    assert len({address(number) for number in range(1, 1001)}) == 1000
    assert address(300) == "10.0.1.44"
