"""Patterns in which `*` stands for any text: whether two can match the same, and whether one matches all of another."""

from __future__ import annotations


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
