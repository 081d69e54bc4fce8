"""`quarantine trust`: how far each policy has come on the way from observing to acting. Pure; rendered elsewhere."""

from quarantine.core.record.trust.material import Edition, Found, Told, Trail
from quarantine.core.record.trust.path import Rank, Standing, Step, Wanted, counted_since, standing, standings
from quarantine.core.record.trust.waiting import waiting

__all__ = [
    "Edition",
    "Found",
    "Rank",
    "Standing",
    "Step",
    "Told",
    "Trail",
    "Wanted",
    "counted_since",
    "standing",
    "standings",
    "waiting",
]
