"""What the exporters of a live world say, written to Prometheus as the time passes."""

from __future__ import annotations

from datetime import UTC, datetime

from quarantine.sandbox.remotewrite import Series, write
from tests.e2e.worlds import AHEAD, STEP, gauge, healthy

HOT = 84.0  # °C


class Feed:
    """What the exporters of a world say, kept up to some minutes past the present."""

    def __init__(self, url: str, nodes: tuple[str, ...]) -> None:
        self._url = url
        self._series = list(healthy(nodes))  # as `world` has written them
        self._until = datetime.now(UTC) + AHEAD - STEP  # noqa: TID251 - the program under test asks for now

    def heat(self, node: str) -> None:
        """A GPU of it has been hot for ten minutes, and stays so."""
        hot = gauge("DCGM_FI_DEV_GPU_TEMP", node, 3, HOT, extra="hot")
        write(self._url, [hot])
        self._series.append(hot)

    def top_up(self) -> None:
        """Write more, where it is nearly used up."""
        now = datetime.now(UTC)  # noqa: TID251
        if now + AHEAD / 2 < self._until:
            return
        self._until = now + AHEAD
        self._series = [_longer(one, self._until) for one in self._series]
        write(self._url, self._series)


def _longer(series: Series, until: datetime) -> Series:
    """What follows, going on as it went; it begins with the last two samples for whoever goes on from there."""
    (_, before), (at, value) = list(series.samples)[-2:]
    assert isinstance(at, datetime)
    more = [(at + STEP * n, value + (value - before) * n) for n in range(1, max(2, int((until - at) / STEP)) + 1)]
    return Series(series.labels, more)
