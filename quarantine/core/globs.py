"""Patterns in which `*` stands for any text: what they match, and what two of them have in common."""

from __future__ import annotations


def matches(glob: str, text: str) -> bool:
    """Whether a pattern matches a whole text. In linear steps through the text, however many stars there are.

    Between two stars the first place that fits is as good as any later one.
    """
    first, *rest = glob.split("*")
    if not rest:
        return text == glob
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def covers(wide: str, narrow: str) -> bool:
    """Whether everything that `narrow` matches is matched by `wide`."""
    # A star of the narrow one may stand for what only a star takes: any letter that the wide one does not have.
    return _meet(wide, narrow, any_for_star=False)


def overlap(one: str, other: str) -> bool:
    """Whether there is a text that both match."""
    return _meet(one, other, any_for_star=True)


def _meet(one: str, other: str, *, any_for_star: bool) -> bool:
    """Walks both at once. `any_for_star`: a star of `other` may also be what `one` wants at that place."""
    reached = {(0, 0)}
    left = [(0, 0)]
    while left:
        i, j = left.pop()
        steps = []
        if i < len(one) and one[i] == "*":
            steps.append((i + 1, j))
            if j < len(other):
                steps.append((i, j + 1))
        if any_for_star and j < len(other) and other[j] == "*":
            steps.append((i, j + 1))
            if i < len(one):
                steps.append((i + 1, j))
        if i < len(one) and j < len(other) and one[i] == other[j] != "*":
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in reached:
                reached.add(step)
                left.append(step)
    return (len(one), len(other)) in reached
