"""Builders of results, as the engine makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quarantine.backtest.result import Gap, Held, Outage, Result, Span
from quarantine.core.case import Evidence, HeldBy
from quarantine.core.model import Device, DeviceKind, Severity

START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPAN = Span(START, START + 24 * HOUR)


def outage(
    node: str,
    *,
    at: timedelta = HOUR,
    lasting: timedelta | None = None,
    policy: str = "gpu-hot",
    severity: Severity = Severity.CRITICAL,
    reason: str = "GPU 3 is above 78 °C",
) -> Outage:
    start = START + at
    evidence = Evidence("max(x) > 78", 84.0, "°C", "above 78 °C", start)
    end = None if lasting is None else start + lasting
    device = Device(DeviceKind.GPU, f"GPU-{node}", "3")
    return Outage(node, f"case-{node}", policy, device, severity, start, end, reason, 8, evidence)


def held(node: str, by: HeldBy = HeldBy.BUDGET, *, at: timedelta = HOUR) -> Held:
    return Held(node, "gpu-hot", by, START + at, START + at + HOUR, "the budget is spent")


def result(*outages: Outage, held: tuple[Held, ...] = (), gaps: tuple[Gap, ...] = ()) -> Result:
    ordered = tuple(sorted(outages, key=lambda o: o.start))
    return Result(SPAN, 32, 256, ("gpu-hot",), ordered, held, gaps, 4, 10, 100, 7, ("the inventory is the one given",))
