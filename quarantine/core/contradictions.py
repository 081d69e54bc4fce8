"""What is wrong with a policy beyond its shape: contradictions within it, and with the signals it names."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.model import DeviceKind
from quarantine.core.policy import PolicySpec
from quarantine.core.signal import SignalSpec
from quarantine.core.trigger import Recovery, Trigger
from quarantine.core.units import format_duration, format_number


def contradictions(name: str, spec: PolicySpec, signals: Mapping[str, SignalSpec]) -> list[tuple[tuple[str, ...], str]]:
    """What is wrong with a policy beyond its shape: `(where in the document, sentence)`."""
    found: list[tuple[tuple[str, ...], str]] = []
    signal = spec.query.as_signal(name) if spec.query is not None else signals.get(spec.signal or "")
    trigger, recovery = spec.trigger, spec.recovery
    if signal is None:
        known = ", ".join(sorted(signals)) or "none"
        return [(("spec", "signal"), f"policy {name}: no signal is called {spec.signal!r} (known: {known})")]
    counts = trigger.events is not None
    if counts != (signal.type == "counter"):
        want = "events within a time" if signal.type == "counter" else "above or below for a time"
        found.append(
            (("spec", "trigger"), f"policy {name}: {spec.signal} is a {signal.type}, so its trigger is {want}")
        )
    if trigger.window < 2 * signal.interval:
        found.append(
            (
                ("spec", "trigger"),
                f"policy {name}: a trigger over {format_duration(trigger.window)} never fires, since {spec.signal} has "
                f"a new value every {format_duration(signal.interval)}; at least twice that is needed",
            )
        )
    if recovery is None:
        return found
    found += [(("spec", "recovery"), f"policy {name}: {text}") for text in _recovery(trigger, recovery)]
    load = signals.get(recovery.load.signal)
    if load is None:
        found.append(
            (("spec", "recovery", "load", "signal"), f"policy {name}: no signal is called {recovery.load.signal!r}")
        )
    elif load.type != "gauge" or load.device not in (signal.device, DeviceKind.NODE):
        found.append(
            (
                ("spec", "recovery", "load", "signal"),
                f"policy {name}: the load must be a gauge of the same device ({signal.device}) or of the node",
            )
        )
    else:
        have = {s.exporter for s in load.sources}
        for missing in sorted({s.exporter for s in signal.sources} - have):
            found.append(
                (
                    ("spec", "recovery", "load", "signal"),
                    f"policy {name}: {recovery.load.signal} has no source for {missing}, so nothing recovers there",
                )
            )
    return found


def _recovery(trigger: Trigger, recovery: Recovery) -> list[str]:
    if trigger.events is not None:
        if recovery.above is not None or recovery.below is not None:
            return ["events recover by having none for a time: give no above or below"]
        return []
    bound, want = (trigger.above, "below") if trigger.above is not None else (trigger.below, "above")
    have = getattr(recovery, want)
    other = recovery.above if want == "below" else recovery.below
    assert bound is not None  # noqa: S101
    if have is None or other is not None:
        return [
            f"its trigger is {'above' if want == 'below' else 'below'}, so its recovery must give {want}, and only that"
        ]
    if (have > bound) if want == "below" else (have < bound):
        return [
            f"recovery {want} {format_number(have)} contradicts the trigger at {format_number(bound)}: "
            "a device could be bad and good at once"
        ]
    return []
