"""What is wrong with PromQL that people write into a signal, seen without asking a Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import promql_parser as promql

from quarantine.core.selectors import quote

# The parser recurses in native code, where too deep a nesting is no exception but the end of the process. It holds to
# 3,000 operators; what is made of an expression nests a few levels deeper than it.
LONGEST = 2000


def check_query(text: str) -> str | None:
    """Why this query of ours would be refused by Prometheus; None where it is an instant vector."""
    parsed = _parse(text)
    if isinstance(parsed, str):
        return parsed
    kind = _type(parsed)
    return None if kind == promql.ValueType.Vector else f"it is a {_name(kind)} and no instant vector"


def check_expression(text: str, matchers: Mapping[str, str], labels: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """(sentence without its subject, hint) for each fault of an expression.

    `matchers` are the fleet's, which every selector must carry. Of each group of `labels` the result needs one.
    """
    if len(text) > LONGEST:
        return [(f"is longer than {LONGEST} characters", "make a recording rule of it")]
    parsed = _parse(text)
    if isinstance(parsed, str):
        return [(f"is no PromQL: {parsed}", "")]
    if (kind := _type(parsed)) != promql.ValueType.Vector:
        return [(f"is a {_name(kind)} and no instant vector", _VECTOR_HINT.get(_name(kind), ""))]
    found = [fault for node, ranged in _walk(parsed) for fault in _selection(node, ranged, matchers)]
    found += _result(parsed, labels)
    return list(dict.fromkeys(found))


_SELECTING = {"topk", "bottomk", "limitk", "limit_ratio"}  # aggregations that keep every label
_VECTOR_HINT = {
    "matrix": "put it inside a function such as last_over_time(…)",
    "scalar": "it must have a series for each device",
    "string": "it must have a series for each device",
}


_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def _parse(text: str) -> promql.Expr | str:
    """The tree, or why there is none."""
    try:
        return promql.parse(text)
    except ValueError as error:
        return " ".join(str(error).split())


def _type(root: Any) -> promql.ValueType:
    """Operators and brackets have the type of their first operand that is no scalar."""
    left = [root]
    found: promql.ValueType = promql.ValueType.Scalar
    while left and found == promql.ValueType.Scalar:
        match node := left.pop():
            case promql.ParenExpr() | promql.UnaryExpr():
                left.append(node.expr)
            case promql.BinaryExpr():
                left += [node.rhs, node.lhs]
            case promql.Call():
                found = node.func.return_type
            case promql.StringLiteral():
                found = promql.ValueType.String
            case promql.MatrixSelector() | promql.SubqueryExpr():
                found = promql.ValueType.Matrix
            case promql.VectorSelector() | promql.AggregateExpr():
                found = promql.ValueType.Vector
    return found


def _name(kind: promql.ValueType) -> str:
    return str(kind).rsplit(".", 1)[-1].lower()


def _walk(root: Any) -> Iterator[tuple[Any, bool]]:
    """Selectors (with whether they are inside a range) and subqueries. A loop, since a chain of operators is deep."""
    left = [root]
    while left:
        node = left.pop()
        match node:
            case promql.VectorSelector():
                yield node, False
            case promql.MatrixSelector():
                yield node.vector_selector, True
            case promql.SubqueryExpr():
                yield node, True
                left.append(node.expr)
            case promql.BinaryExpr():
                left += [node.rhs, node.lhs]
            case promql.Call():
                left += reversed(node.args)
            case promql.AggregateExpr():
                left += [node.expr] if node.param is None else [node.expr, node.param]
            case promql.ParenExpr() | promql.UnaryExpr():
                left.append(node.expr)


def _selection(node: Any, ranged: bool, matchers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if node.at is not None:
        yield "uses @: its answer would not be about the time that is asked", "remove the @"
    if node.offset is not None and node.offset < timedelta(0):
        yield "has a negative offset, so it asks the future", "remove the offset"
    if isinstance(node, promql.SubqueryExpr):
        if node.step is None:
            yield "has a subquery without a step, which every server chooses for itself", "write [5m:30s]"
        return
    name = node.name or str(node)
    if node.matchers.or_matchers:
        yield f"has an `or` between the matchers of {name}, which Prometheus does not know", "use =~"
        return
    if not ranged:
        yield (
            f"has the bare selector {name}, which Prometheus serves up to five minutes stale",
            f"write last_over_time({name}[1m])",
        )
    carried = {m.name: m.value for m in node.matchers.matchers if m.op == promql.MatchOp.Equal}
    for label, value in matchers.items():
        if carried.get(label) != value:
            yield f"selects {name} without the fleet's matcher", f'write {label}="{value}" into it'


def _result(root: Any, labels: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    while isinstance(root, promql.ParenExpr):
        root = root.expr
    if not isinstance(root, promql.AggregateExpr) or str(root.op) in _SELECTING:
        return
    named = set(root.modifier.labels) if root.modifier else set()
    without = root.modifier is not None and root.modifier.type == promql.AggModifierType.Without
    for group in labels:
        if not any((label in named) != without for label in group):
            yield f"aggregates away {' and '.join(group)}, so its result names no device", "keep it in by (…)"


def selectors(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a sound expression selects: each a metric and its matchers, as PromQL writes them."""
    parsed = _parse(text)
    found = []
    for node, _ in _walk(parsed) if not isinstance(parsed, str) else ():
        if isinstance(node, promql.VectorSelector) and node.name:
            matchers = (
                f"{m.name}{_OPERATORS[str(m.op).rsplit('.', 1)[-1]]}{quote(m.value)}" for m in node.matchers.matchers
            )
            found.append((node.name, tuple(matchers)))
    return found
