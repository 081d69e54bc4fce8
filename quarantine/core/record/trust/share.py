"""How sure a share is that was seen by counting: the exact (Clopper-Pearson) interval of a binomial share."""

from __future__ import annotations

from math import exp, lgamma, log

CONFIDENCE = 0.95
_TINY = 1e-300
_PRECISE = 1e-12
_MOST = 500  # steps of the continued fraction; it needs about the square root of the count


def interval(right: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Between which shares, with this confidence, the one lies of which `right` of `of` were seen.

    Of none seen, anything between 0 and 1. Raises ValueError for counts that cannot be.
    """
    if not 0 <= right <= of:
        raise ValueError(f"{right} of {of} cannot have been seen")
    tail = (1 - confidence) / 2
    low = 0.0 if right == 0 else _inverse(right, of - right + 1, tail)
    high = 1.0 if right == of else _inverse(right + 1, of - right, 1 - tail)
    return low, high


def _inverse(a: int, b: int, probability: float) -> float:
    """Where the regularised incomplete beta function of `a` and `b` has this value."""
    low, high = 0.0, 1.0
    while high - low > _PRECISE:
        middle = (low + high) / 2
        low, high = (middle, high) if _beta(a, b, middle) < probability else (low, middle)
    return (low + high) / 2


def _beta(a: int, b: int, x: float) -> float:
    """The regularised incomplete beta function, 0 < x < 1."""
    weight = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    # The fraction converges fast on the near side of the mean; on the other the function is mirrored.
    if x < (a + 1) / (a + b + 2):
        return weight * _fraction(a, b, x) / a
    return 1 - weight * _fraction(b, a, 1 - x) / b


def _fraction(a: int, b: int, x: float) -> float:
    """Its continued fraction, by Lentz's method."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _MOST):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            total *= d * c
        if abs(d * c - 1) < _PRECISE:
            break
    return total


def _away(value: float) -> float:
    """Not quite zero."""
    return value if abs(value) > _TINY else _TINY
