"""What is said about PromQL without asking a Prometheus."""

from __future__ import annotations

import pytest

from quarantine.adapters.policyfiles.promqlcheck import LONGEST, check_expression, check_query, selectors

NODE = [("node", "nodename")]


@pytest.mark.parametrize(
    "text",
    [
        "rate(x[2m])",
        'last_over_time(x{a=~"b|c"}[1m]) == 1',
        "1 + rate(x[2m])",
        "-(rate(x[2m]))",
        "max_over_time(rate(x[2m])[5m:30s])",
        "last_over_time(x[1m]) and on (node) last_over_time(y[1m])",
        "sum by (node, device) (rate(x[2m]))",
        "sum by (nodename) (rate(x[2m]))",
        "max without (pod) (rate(x[2m]))",
        "topk(3, rate(x[2m]))",
        "last_over_time(x[1m] offset 5m)",
        "label_replace(rate(x[2m]), 'node', '$1', 'instance', '(.*):.*')",
        '{__name__="x"}[1m]'.join(["last_over_time(", ")"]),
    ],
)
def test_accepted(text: str) -> None:
    assert check_expression(text, {}, NODE) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no PromQL: "),
        ("rate(", "is no PromQL: "),
        ("rate(x)", "is no PromQL: expected type matrix"),
        ('last_over_time(x{a=~"("}[1m])', "is no PromQL: illegal regex"),
        ("rate(x\ud800[1m])", "is no PromQL: "),
        ("x[5m]", "is a matrix and no instant vector"),
        ("rate(x[1m])[5m:30s]", "is a matrix and no instant vector"),
        ("1 + 1", "is a scalar and no instant vector"),
        ("time()", "is a scalar and no instant vector"),
        ("'x'", "is a string and no instant vector"),
        ("x", "has the bare selector x"),
        ("rate(x[2m]) > bool y", "has the bare selector y"),
        ("max_over_time(x[5m:30s])", "has the bare selector x"),
        ("topk(scalar(x), rate(y[2m]))", "has the bare selector x"),
        ("timestamp(x)", "has the bare selector x"),
        ("max_over_time(rate(x[2m])[5m:])", "has a subquery without a step"),
        ("rate(x[2m] @ end())", "uses @"),
        ("rate(x[2m] @ start())", "uses @"),
        ("rate(x[2m] @ 1700000000)", "uses @"),
        ("max_over_time(rate(x[2m])[5m:30s] @ end())", "uses @"),
        ("rate(x[2m] offset -1m)", "has a negative offset"),
        ("last_over_time(x{a='1' or b='2'}[1m])", "has an `or` between the matchers of x"),
        ("sum(rate(x[2m]))", "aggregates away node and nodename"),
        ("(sum by (device) (rate(x[2m])))", "aggregates away node and nodename"),
        ("max without (node, nodename) (rate(x[2m]))", "aggregates away node and nodename"),
    ],
)
def test_refused(text: str, message: str) -> None:
    found = check_expression(text, {}, NODE)
    assert len(found) == 1, found
    assert found[0][0].startswith(message)
    assert "\n" not in found[0][0]


def test_every_selector_must_carry_the_fleets_matchers() -> None:
    fleet = {"cluster": "a"}
    right = 'rate(x{cluster="a"}[2m]) / last_over_time(y{cluster="a", z="1"}[1m])'
    assert check_expression(right, fleet, NODE) == []
    for wrong in ("", 'cluster="b"', 'cluster=~"a"', 'cluster!="a"'):
        found = check_expression(f"rate(x{{{wrong}}}[2m])", fleet, NODE)
        assert found == [("selects x without the fleet's matcher", 'write cluster="a" into it')]


@pytest.mark.parametrize("sign", ["+1", "^1", " or x"])
def test_a_long_chain_is_refused_before_the_parser_runs_out_of_stack(sign: str) -> None:
    longest = "rate(x[1m])" + sign * ((LONGEST - 11) // len(sign))
    assert check_expression(longest, {}, NODE) in ([], [check_expression("x", {}, NODE)[0]])
    assert check_expression("rate(x[1m])" + sign * 100_000, {}, NODE)[0][0] == f"is longer than {LONGEST} characters"


def test_the_deepest_nesting_that_is_short_enough_is_parsed() -> None:
    depth = (LONGEST - 11) // 2
    assert check_expression("(" * depth + "rate(x[1m])" + ")" * depth, {}, NODE) == []
    assert check_expression("-" * (LONGEST - 11) + "rate(x[1m])", {}, NODE) == []


def test_a_query_of_ours_may_be_any_instant_vector() -> None:
    assert check_query("x > 5") is None
    assert check_query("rate(x") == "unclosed left parenthesis"
    assert check_query("x[5m]") == "it is a matrix and no instant vector"


def test_what_an_expression_selects_is_told_as_promql_writes_it() -> None:
    text = 'rate(x{a="b\\"c", d=~"e|f", g!="", h!~"i"}[5m]) unless on (a) max by (a) (y offset 5m) or {__name__="z"}'
    assert selectors(text) == [("x", ('a="b\\"c"', 'd=~"e|f"', 'g!=""', 'h!~"i"')), ("y", ())]
    assert selectors("rate(") == []
