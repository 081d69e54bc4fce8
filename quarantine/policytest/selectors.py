"""Series and matchers as tests write them: PromQL's own, with `$` placeholders for what each machine has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import promql_parser as promql

from quarantine.policytest.format import PREFIX, Machines

Labels = Mapping[str, str]  # with `__name__`
NAME = "__name__"
LONGEST = 1000  # characters of a selector
_PLACEHOLDER = re.compile(r"\$([a-z]+)")
_KNOWN = ("node", "address", "gpu", "index", "hca", "link")


@dataclass(frozen=True, slots=True)
class Matchers:
    """What a selector selects."""

    text: str
    pairs: tuple[tuple[str, str, re.Pattern[str] | str], ...]  # (label, operator, value)

    def match(self, labels: Labels) -> bool:
        """Whether a series is selected; a label that it lacks is empty, as in PromQL."""
        return all(_matches(labels.get(label, ""), operator, value) for label, operator, value in self.pairs)


def _matches(has: str, operator: str, value: re.Pattern[str] | str) -> bool:
    if isinstance(value, re.Pattern):
        return (value.fullmatch(has) is not None) == (operator == "=~")
    return (has == value) == (operator == "=")


def parse_matchers(text: str) -> Matchers:
    """A selector: a metric name, matchers in braces, or both. Raises ValueError: one sentence."""
    return Matchers(text, tuple(_pairs(text)))


def _pairs(text: str) -> Iterator[tuple[str, str, re.Pattern[str] | str]]:
    found = _selector(text)
    if found.name:
        yield NAME, "=", found.name
    for matcher in found.matchers.matchers:
        match matcher.op:
            case promql.MatchOp.Equal:
                yield matcher.name, "=", matcher.value
            case promql.MatchOp.NotEqual:
                yield matcher.name, "!=", matcher.value
            case _:
                operator = "=~" if matcher.op == promql.MatchOp.Re else "!~"
                try:
                    yield matcher.name, operator, re.compile(matcher.value)
                except re.error as error:
                    raise ValueError(f"{matcher.value!r} in {text} is no regular expression: {error}") from None


def parse_series(text: str) -> Labels:
    """A series: a metric name and its labels. Raises ValueError: one sentence."""
    found = _selector(text)
    if not found.name:
        raise ValueError(f'{text} has no metric name: write for instance name{{label="value"}}')
    labels = {NAME: found.name}
    for matcher in found.matchers.matchers:
        if matcher.op != promql.MatchOp.Equal:
            raise ValueError(f'{text} is a series, whose labels have values: write {matcher.name}="…"')
        if matcher.name in labels:
            raise ValueError(f"{text} gives the label {matcher.name} twice")
        labels[matcher.name] = matcher.value
    for value in labels.values():
        for name in _PLACEHOLDER.findall(value):
            if name not in _KNOWN:
                raise ValueError(f"{text} has the placeholder ${name}: known are ${', $'.join(_KNOWN)}")
    return labels


def _selector(text: str) -> promql.VectorSelector:
    if len(text) > LONGEST:  # the parser recurses in native code, where too deep a nesting ends the process
        raise ValueError(f"a selector of more than {LONGEST} characters: shorten it")
    try:
        found = promql.parse(text)
    except ValueError as error:
        raise ValueError(f"{text} is no selector: {' '.join(str(error).split())}") from None
    if not isinstance(found, promql.VectorSelector) or found.offset or found.at or found.matchers.or_matchers:
        raise ValueError(f"{text} is no selector: write a metric name, matchers in braces, or both")
    return found


def expand(labels: Labels, machines: Machines) -> Iterator[Labels]:
    """The series that one with placeholders stands for: one for every combination of what they name."""
    used = {name for value in labels.values() for name in _PLACEHOLDER.findall(value)}
    if not used:
        yield labels
        return
    gpus = range(machines.gpus) if used & {"gpu", "index", "link"} else range(1)
    links = range(machines.links) if "link" in used else range(1)
    ports = range(machines.ports) if "hca" in used else range(1)
    for number, gpu, link, port in product(range(1, machines.count + 1), gpus, links, ports):
        stands_for = {
            "node": f"{PREFIX}{number}",
            "address": address(number),
            "gpu": f"GPU-{number}-{gpu}",
            "index": str(gpu),
            "hca": f"mlx5_{port}",
            "link": str(link),
        }
        yield {label: _PLACEHOLDER.sub(lambda m: stands_for[m[1]], value) for label, value in labels.items()}  # noqa: B023


def address(number: int) -> str:
    """The address of a machine."""
    return f"10.0.{number >> 8}.{number & 255}"


def written(labels: Labels) -> str:
    """A series as PromQL has it."""
    pairs = ",".join(f'{label}="{value}"' for label, value in labels.items() if label != NAME)
    return labels[NAME] + (f"{{{pairs}}}" if pairs else "")
