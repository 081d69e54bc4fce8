"""What a rate of failures means for a training job: how long it runs on average, and how often to save its state."""

from __future__ import annotations

from datetime import timedelta
from math import sqrt

DAY = timedelta(days=1)
LONGEST = timedelta(days=36_500)  # a mean beyond a century says no more than that


def mean_time_to_failure(nodes: int, rate: float) -> timedelta:
    """Of a job on so many nodes, any of which ends it: 1 / (nodes × rate). `rate`: failures per node and day."""
    each_day = nodes * rate
    return LONGEST if each_day <= DAY / LONGEST else DAY / each_day


def young(cost: timedelta, mean: timedelta) -> timedelta:
    """How long to compute between two checkpoints, each of which takes `cost`: sqrt(2 × cost × mean) (Young, 1974)."""
    return timedelta(seconds=sqrt(2 * cost.total_seconds() * mean.total_seconds()))


def daly(cost: timedelta, mean: timedelta) -> timedelta:
    """As `young`, to a higher order (Daly, 2006): exact enough where checkpoints are not short beside `mean`.

    Where one takes twice the mean time to failure or longer, it is the mean itself.
    """
    share = cost / (2 * mean) if mean > timedelta(0) else 1.0
    if share >= 1:
        return mean
    return young(cost, mean) * (1 + sqrt(share) / 3 + share / 9) - cost
