"""How sure a rate is that was seen by counting: the exact (Garwood) interval of a Poisson mean."""

from __future__ import annotations

from math import exp, inf, lgamma, log, sqrt

CONFIDENCE = 0.95
_TINY = 1e-300
_PRECISE = 1e-13


def interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Between which means, with this confidence, the one lies of which `count` events were seen.

    The lower end is where seeing as many or more has the probability (1 - confidence) / 2, the upper where seeing as
    many or fewer has. Raises ValueError for a count below 0.
    """
    if count < 0:
        raise ValueError(f"{count} events cannot have been seen")
    tail = (1 - confidence) / 2
    # P(X >= k; mean) is the regularised incomplete gamma function of k; P(X <= k; mean) is 1 minus that of k + 1.
    lower = 0.0 if count == 0 else _inverse(count, tail)
    return lower, _inverse(count + 1, 1 - tail)


def at_least(count: int, mean: float) -> float:
    """The probability of `count` (1 or more) events or more, where `mean` are expected."""
    if mean <= 0:
        return 0.0
    weight = exp(count * log(mean) - mean - lgamma(count))
    return _series(count, mean) * weight if mean < count + 1 else 1 - _fraction(count, mean) * weight


def _inverse(count: int, probability: float) -> float:
    """The mean at which `at_least` is this."""
    low, high = 0.0, count + 10 * sqrt(count) + 20.0
    while high - low > _PRECISE * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if at_least(count, middle) < probability else (low, middle)
    return (low + high) / 2


def _series(count: int, mean: float) -> float:
    """Of the lower incomplete gamma function, without its weight; converges fast below the count."""
    term = total = 1 / count
    number = float(count)
    while term > total * _PRECISE:
        number += 1
        term *= mean / number
        total += term
    return total


def _fraction(count: int, mean: float) -> float:
    """Of the upper one, as a continued fraction by Lentz' method; converges fast above the count."""
    b = mean + 1 - count
    c, d = inf, 1 / b
    value, step = d, 0
    while True:
        step += 1
        factor = -step * (step - count)
        b += 2
        d = 1 / _nonzero(factor * d + b)
        c = _nonzero(b + factor / c)
        value *= (change := c * d)
        if abs(change - 1) < _PRECISE:
            return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
