"""How often values really come, and what that makes of a policy's times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import expected_samples
from quarantine.core.readings import Reading
from quarantine.core.trigger import Form
from quarantine.core.units import format_duration
from quarantine.livecheck.asking import LOOKBACK, Ask, Selector


def spacing(ask: Ask, reading: Reading, selector: Selector) -> timedelta | None:
    """The time between two samples of most series; None where none has been there for long enough to tell."""
    window = max(LOOKBACK, 20 * reading.signal.interval)
    text = format_duration(window)
    # A series that began within the window has fewer samples than its pace would give.
    old = f"last_over_time({selector.text()}[{text}] offset {text})"
    # From the sample before the window to the last one, and not to now: data that stopped a moment ago came no rarer.
    times = f"timestamp({selector.text()})[{text}:{format_duration(reading.signal.interval)}]"
    lasted = f"(max_over_time({times}) - min_over_time({times}))"
    seconds = ask.number(f"quantile(0.5, {lasted} / count_over_time({selector.text()}[{text}]) and {old})")
    return timedelta(seconds=seconds) if seconds else None


def too_rare(policy: LoadedPolicy, reading: Reading, real: timedelta) -> Iterator[str]:
    """Sentences about what never happens, since values come more rarely than the signal says."""
    trigger, recovery, interval = policy.spec.trigger, policy.spec.recovery, reading.signal.interval
    if real <= interval * 1.2:  # scrapes are a little late now and then
        return
    pace = (
        f"{reading.key} has a value every {format_duration(_rounded(real))} and not, as the signal says, every "
        f"{format_duration(interval)}"
    )
    if trigger.form is Form.EVENTS:
        if real > 2 * interval:
            yield f"policy {policy.name} cannot count: {pace}"
    elif trigger.form is not Form.ABSENT:
        expected, least = expected_samples(policy, reading)
        if trigger.window / real < least - 0.5:
            yield (
                f"policy {policy.name} never fires: {pace}, so a window of {format_duration(trigger.window)} holds "
                f"{int(trigger.window / real)} of {expected} samples and {least} are wanted"
            )
    if recovery is not None and recovery.lasting / real < int(recovery.coverage * (recovery.lasting / interval)) - 0.5:
        yield f"policy {policy.name} never finds anything recovered: {pace}"


def rounded_up(real: timedelta) -> str:
    """What to write for it."""
    return format_duration(_rounded(real))


def _rounded(real: timedelta) -> timedelta:
    seconds = real.total_seconds()
    nice = next((n for n in (5, 10, 15, 20, 30, 60, 90, 120, 180, 300, 600, 900) if seconds <= n * 1.1), None)
    return timedelta(seconds=nice if nice is not None else round(seconds))
