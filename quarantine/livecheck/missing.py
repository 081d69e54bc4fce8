"""Why a selector matches no series: no such metric (and what may have been meant), or which matcher none of it has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from quarantine.core.selectors import quote
from quarantine.livecheck.asking import Ask, Rejected, Selector

_SHOWN = 6  # values or labels that a sentence names
_ALIKE = 0.74  # from here on, what somebody wrote may be a slip of another name
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)")


@dataclass(slots=True)
class Finder:
    """Remembers what it has asked: many policies select the same."""

    ask: Ask
    _counts: dict[str, int] = field(default_factory=dict)
    _reasons: dict[Selector, tuple[str, str]] = field(default_factory=dict)

    def count(self, selector: Selector, matchers: Sequence[str] | None = None) -> int:
        """How many series it matches."""
        return self.size(selector.series(matchers))

    def size(self, expression: str) -> int:
        """How many series an expression has now."""
        if expression not in self._counts:
            self._counts[expression] = self.ask.number(f"count({expression})")
        return self._counts[expression]

    def reason(self, selector: Selector) -> tuple[str, str]:
        """(sentence, hint): why it matches none."""
        if selector not in self._reasons:
            self._reasons[selector] = self._look(selector)
        return self._reasons[selector]

    def _look(self, selector: Selector) -> tuple[str, str]:
        every = self.count(selector, ())
        if not every:
            meant = self._meant(selector.metric)
            hint = f"did you mean {meant}?" if meant else "is its exporter scraped, and the metric turned on there?"
            return f"there is no metric {selector.metric} in this Prometheus", hint
        guilty = self._guilty(selector)
        what = f"{selector.metric} has {every} series, and none with {' and '.join(guilty)}"
        return what, self._instead(selector, guilty[-1])

    def _guilty(self, selector: Selector) -> list[str]:
        """The one matcher without which there would be series; else the first so many that leave none."""
        for matcher in selector.matchers:
            if not self.count(selector, (matcher,)):
                return [matcher]
        for size in range(2, len(selector.matchers) + 1):
            if not self.count(selector, selector.matchers[:size]):
                return list(selector.matchers[:size])
        return list(selector.matchers)

    def _instead(self, selector: Selector, matcher: str) -> str:
        """What the series have in place of what a matcher wants."""
        found = _LABEL.match(matcher)
        label = found[1] if found else ""
        answer = self.ask(f"topk({_SHOWN + 1}, count by ({label}) ({selector.series(())}))") if label else ()
        values = sorted({s.labels.get(label, "") for s in answer}) if not isinstance(answer, Rejected) else []
        if any(values):
            shown = ", ".join(repr(value) for value in values[:_SHOWN]) + (", …" if len(values) > _SHOWN else "")
            return f"{label} is {shown} there"
        one = self.ask(f"topk(1, {selector.series(())})")
        if isinstance(one, Rejected) or not one:
            return ""
        return f"its labels are {', '.join(sorted(one[0].labels))}"

    def _meant(self, metric: str) -> str | None:
        """The closest name that there is, sought among those that begin alike: all names would be too many to ask."""
        for prefix in _prefixes(metric):
            alike = f"{{__name__=~{quote(re.escape(prefix) + '.*')}}}"  # a sample's labels come without __name__
            answer = self.ask(f'count by (called) (label_replace({alike}, "called", "$1", "__name__", "(.+)"))')
            names = [] if isinstance(answer, Rejected) else [s.labels.get("called", "") for s in answer]
            words = sorted(names, key=lambda name: _likeness(name, metric), reverse=True)
            if words and _likeness(words[0], metric) >= _ALIKE:
                return words[0]
        return None


def _prefixes(metric: str) -> Iterator[str]:
    """`node_infiniband_port_`, `node_infiniband_`, `node_`: ever less of it, and at last its first letters."""
    parts = metric.split("_")
    for size in range(len(parts) - 1, 0, -1):
        yield "_".join(parts[:size]) + "_"
    yield metric[: max(3, len(metric) // 3)]


def _likeness(name: str, metric: str) -> float:
    """By letters, or by words in whatever order: port_errors_received for port_receive_errors.

    Of what comes after the words that both begin with: all of an exporter's names have those.
    """
    one, other = name.lower().split("_"), metric.lower().split("_")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    one, other = one[same:], other[same:]
    if not one or not other:
        return 0.0
    letters = difflib.SequenceMatcher(None, "_".join(one), "_".join(other)).ratio()
    return max(letters, difflib.SequenceMatcher(None, "_".join(sorted(one)), "_".join(sorted(other))).ratio())
