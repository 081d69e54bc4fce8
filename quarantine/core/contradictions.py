"""What is wrong with a policy beyond its shape: contradictions within it, with its signals and with the fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from quarantine.core.compatible import Where, incompatible, limits
from quarantine.core.contradiction import Contradiction
from quarantine.core.fleet import FleetSpec, Route
from quarantine.core.model import DeviceKind
from quarantine.core.policy import PolicySpec
from quarantine.core.readings import Reading, load_among, readings, tie
from quarantine.core.response import Correlation, Escalation, Grace
from quarantine.core.signal import SignalSpec
from quarantine.core.trigger import Form, Load, ModelBound, Recovery, Trigger
from quarantine.core.unfit import NEEDS_NO_LABEL, care_contradictions, response_contradictions
from quarantine.core.units import format_duration, format_number

_TRIGGER: Where = ("spec", "trigger")
_RECOVERY: Where = ("spec", "recovery")


def contradictions(
    name: str,
    spec: PolicySpec,
    signals: Mapping[str, SignalSpec],
    fleet: FleetSpec | None,
    procedures: Collection[str] = (),
) -> list[Contradiction]:
    """What is wrong with a policy beyond its shape. Without a fleet, nothing is said that needs one."""
    signal = spec.query.as_signal(name) if spec.query is not None else signals.get(spec.signal or "")
    if signal is None:
        known = ", ".join(sorted(signals)) or "none"
        sentence = f"policy {name}: no signal is called {spec.signal!r} (known: {known})"
        return [Contradiction(("spec", "signal"), sentence, missing=spec.signal or "")]
    found = [*_trigger(spec.trigger, signal, spec.signal or "its query"), *_models(spec, signal)]
    found += _recovery(spec, signal, signals)
    found += _grace(spec.grace, signal, fleet)
    found += _escalation(spec.escalation, spec.recovery)
    found += response_contradictions(spec.response, procedures, fleet)
    if fleet is not None:
        found += _correlation(spec.correlation, fleet)
        found += _selector(spec.node_selector, fleet)
    return [replace(c, sentence=f"policy {name}: {c.sentence}") for c in found]


# --- Trigger ----------------------------------------------------------------------------------------------------------


def _trigger(trigger: Trigger, signal: SignalSpec, called: str) -> Iterator[Contradiction]:
    form = trigger.form
    if form is not Form.ABSENT and (form is Form.EVENTS) != (signal.type == "counter"):
        want = "events within a time" if signal.type == "counter" else "above, below or outside for a time"
        yield Contradiction(_TRIGGER, f"{called} is a {signal.type}, so its trigger is {want}")
        return
    if trigger.window < 2 * signal.interval:
        sentence = (
            f"a trigger over {format_duration(trigger.window)} never fires, since {called} has a new value every "
            f"{format_duration(signal.interval)}; at least twice that is needed"
        )
        yield Contradiction(_TRIGGER, sentence, f"write {format_duration(2 * signal.interval)} or more")
    match form:
        case Form.ABSENT:
            yield from _absent(trigger, signal, called)
        case Form.ABOVE_SIBLINGS if signal.device is DeviceKind.NODE:
            yield Contradiction(_TRIGGER, f"{called} is about nodes, and a node has no siblings on itself")
        case Form.ABOVE_SIBLINGS if (trigger.above_siblings or 0) <= 0:
            yield Contradiction(_TRIGGER, "aboveSiblings must be more than 0: half of all devices are above the median")
        case _:
            yield from _never(trigger, signal)


def _absent(trigger: Trigger, signal: SignalSpec, called: str) -> Iterator[Contradiction]:
    window, memory = trigger.window, trigger.memory
    if window >= memory:
        sentence = f"a device is forgotten after {format_duration(memory)}, before it is missed for so long"
        yield Contradiction(_TRIGGER, sentence, "give a longer within, or a shorter for")
    if signal.device is not DeviceKind.NODE and any(source.expr is not None for source in signal.sources):
        sentence = f"absence is seen by metrics, and {called} has a source with expr"
        yield Contradiction(_TRIGGER, sentence, "use a signal whose sources name metrics")


def _never(trigger: Trigger, signal: SignalSpec) -> Iterator[Contradiction]:
    """Bounds that no plausible value can cross."""
    least, most = signal.plausible.min, signal.plausible.max
    if trigger.events is not None:
        top = most if signal.saturates is None else min(most, signal.saturates - 1)
        if trigger.events > top - max(least, 0):
            yield Contradiction(_TRIGGER, f"it never counts to {trigger.events}: {format_number(top)} is the most")
        return
    bounds: list[tuple[Where, str, Trigger | ModelBound]] = [(_TRIGGER, "", trigger)]
    bounds += [((*_TRIGGER, "models", n), f" for {own.model}", own) for n, own in enumerate(trigger.models)]
    for where, whom, bound in bounds:
        limit = limits(bound)
        reach = most - least if trigger.form is Form.ABOVE_SIBLINGS else most
        over = limit.above is not None and limit.above < reach
        under = limit.below is not None and limit.below > least
        if not over and not under:
            sentence = (
                f"the trigger{whom} never fires, since a value is plausible from {format_number(least)} to "
                f"{format_number(most)} only"
            )
            yield Contradiction(where, sentence, "correct the bound, or the signal's plausible range")


def _models(spec: PolicySpec, signal: SignalSpec) -> Iterator[Contradiction]:
    without = sorted(source.exporter for source in signal.sources if source.model is None)
    if not without:
        return
    for where, models in (
        (_TRIGGER, spec.trigger.models),
        (_RECOVERY, spec.recovery.models if spec.recovery is not None else ()),
    ):
        if models:
            sentence = f"bounds for models need a label with the model, and there is none for {', '.join(without)}"
            hint = "give `model` in each source; a query of your own and a source with expr have none"
            yield Contradiction((*where, "models"), sentence, hint)


# --- Recovery ---------------------------------------------------------------------------------------------------------


def _recovery(spec: PolicySpec, signal: SignalSpec, signals: Mapping[str, SignalSpec]) -> Iterator[Contradiction]:
    recovery = spec.recovery
    if recovery is None:
        return
    for where, sentence in incompatible(spec.trigger, recovery):
        yield Contradiction((*_RECOVERY, *where), sentence)
    below = recovery.below is not None and recovery.below <= signal.plausible.min
    above = recovery.above is not None and recovery.above >= signal.plausible.max
    if (below and spec.trigger.form is not Form.ABOVE_SIBLINGS) or above:
        yield Contradiction(_RECOVERY, "nothing recovers: no plausible value of the signal is that good")
    if recovery.lasting < 2 * signal.interval:
        sentence = f"nothing recovers within {format_duration(recovery.lasting)}: too few values arrive in that time"
        yield Contradiction(_RECOVERY, sentence, f"write {format_duration(2 * signal.interval)} or more")
    yield from _load(recovery.load, signal, signals)


def _load(load: Load, signal: SignalSpec, signals: Mapping[str, SignalSpec]) -> Iterator[Contradiction]:
    at: Where = (*_RECOVERY, "load", "signal")
    work = signals.get(load.signal)
    if work is None:
        yield Contradiction(at, f"no signal is called {load.signal!r}", missing=load.signal)
        return
    link = signal.device is DeviceKind.NVLINK
    kinds = (signal.device, DeviceKind.NODE, *((DeviceKind.GPU,) if link else ()))
    if work.type != "gauge" or work.device not in kinds:
        whose = f"of the same device ({signal.device}){', of its GPU' if link else ''} or of the node"
        yield Contradiction(at, f"the load must be a gauge {whose}")
        return
    if load.above >= work.plausible.max:
        sentence = f"no load exceeds {format_number(load.above)}: {format_number(work.plausible.max)} is the most"
        yield Contradiction((*_RECOVERY, "load", "above"), sentence)
    exporters = list(dict.fromkeys(source.exporter for source in work.sources))
    if load.exporter is not None and load.exporter not in exporters:
        sentence = f"{load.signal} has no source for {load.exporter} (there is {', '.join(exporters)})"
        yield Contradiction((*_RECOVERY, "load", "exporter"), sentence)
        return
    for own in _one_of_each(signal):
        other = load_among(work, own, load.exporter)
        if other is None:
            sentence = f"{load.signal} has no source for {own.source.exporter}, so nothing recovers there"
            yield Contradiction(at, sentence, "add the source, or name one in load.exporter")
        elif not tie(own, other):
            sentence = (
                f"the load cannot be told of the same device: {load.signal} names it by {_names(other)} and "
                f"{own.source.exporter} by {_names(own)}"
            )
            yield Contradiction(at, sentence, "use a load whose labels the source has as well")


def _one_of_each(signal: SignalSpec) -> Iterator[Reading]:
    """A reading of each source: all of its metrics have the same labels."""
    found: dict[int, Reading] = {}
    for reading in readings(signal, {}):
        found.setdefault(id(reading.source), reading)
    yield from found.values()


def _names(reading: Reading) -> str:
    return ", ".join((*reading.node_labels, *reading.device_labels))


# --- What stands in the way -------------------------------------------------------------------------------------------


def _grace(grace: Grace, signal: SignalSpec, fleet: FleetSpec | None) -> Iterator[Contradiction]:
    if grace.boot is not None and fleet is not None and fleet.uptime is None:
        sentence = "a grace after boot needs the fleet's uptime signal, and the fleet names none"
        yield Contradiction(("spec", "grace", "boot"), sentence, "give `uptime` in the Fleet document")
    without = sorted({source.exporter for source in signal.sources if source.heartbeat is None})
    if grace.driver is not None and without:
        sentence = f"a grace after a driver reload needs a heartbeat, and there is none for {', '.join(without)}"
        yield Contradiction(("spec", "grace", "driver"), sentence, "give `heartbeat` in each source of the signal")


def _escalation(escalation: Escalation | None, recovery: Recovery | None) -> Iterator[Contradiction]:
    if escalation is None:
        return
    at: Where = ("spec", "escalation")
    if recovery is None:
        yield Contradiction(at, "an escalation needs a recovery: without one the first finding never ends")
    elif (escalation.findings - 1) * recovery.lasting >= escalation.within:
        sentence = (
            f"{escalation.findings} findings within {format_duration(escalation.within)} cannot be: each ends only "
            f"after {format_duration(recovery.lasting)} of recovery"
        )
        yield Contradiction(at, sentence, "give a longer within, fewer findings or a shorter recovery")


def _correlation(correlation: Correlation | None, fleet: FleetSpec) -> Iterator[Contradiction]:
    for number, shared in enumerate(correlation.by if correlation is not None else ()):
        if shared not in fleet.topology and shared not in NEEDS_NO_LABEL:
            known = ", ".join(fleet.topology) or "none"
            sentence = f"the fleet's topology has no {shared!r} (known: {known})"
            hint = f"add its label there; {' and '.join(NEEDS_NO_LABEL)} need none"
            yield Contradiction(("spec", "correlation", "by", number), sentence, hint)


def _selector(selector: Mapping[str, str], fleet: FleetSpec) -> Iterator[Contradiction]:
    """Nodes of no pool are never acted on."""
    if selector and all(
        any(pool.node_selector.get(label, value) != value for label, value in selector.items()) for pool in fleet.pools
    ):
        yield Contradiction(("spec", "nodeSelector"), "no pool of the fleet can have such a node")


# --- Signals and the fleet --------------------------------------------------------------------------------------------


def signal_contradictions(spec: SignalSpec) -> list[Contradiction]:
    """What is wrong with a signal beyond its shape."""
    found = []
    if spec.saturates is not None and spec.type != "counter":
        found.append(Contradiction(("spec", "saturates"), "a gauge does not saturate: saturates goes with counters"))
    for number, source in enumerate(spec.sources):
        via = source.node.via
        if via is not None and source.node.first[0] in via.by:
            at: Where = ("spec", "sources", number, "node", "via", "by")
            sentence = f"{source.node.first[0]} is what {via.metric} is asked for, so the two cannot be joined on it"
            found.append(Contradiction(at, sentence, "name the labels that both metrics have"))
    return found


def fleet_contradictions(
    fleet: FleetSpec, signals: Mapping[str, SignalSpec], procedures: Collection[str] = ()
) -> list[Contradiction]:
    """What is wrong with a fleet beyond its shape."""
    care = care_contradictions(fleet, signals, procedures)
    return [*_uptime(fleet, signals), *_pools(fleet), *_routes(fleet), *care]


def _uptime(fleet: FleetSpec, signals: Mapping[str, SignalSpec]) -> Iterator[Contradiction]:
    if fleet.uptime is None:
        return
    signal = signals.get(fleet.uptime)
    if signal is None:
        sentence = f"no signal is called {fleet.uptime!r}"
        yield Contradiction(("spec", "uptime"), sentence, missing=fleet.uptime)
    elif signal.type != "gauge" or signal.device is not DeviceKind.NODE:
        yield Contradiction(("spec", "uptime"), f"uptime must be a gauge of the node, and {fleet.uptime} is not")


def _pools(fleet: FleetSpec) -> Iterator[Contradiction]:
    for number, pool in enumerate(fleet.pools):
        for other in fleet.pools[:number]:
            if other.node_selector.items() <= pool.node_selector.items():
                sentence = f"pool {pool.name} never has a node: pool {other.name} stands before it and takes them all"
                yield Contradiction(("spec", "pools", number, "nodeSelector"), sentence, "put the narrower pool first")
                break


def _routes(fleet: FleetSpec) -> Iterator[Contradiction]:
    for number, route in enumerate(fleet.routes):
        if any(_takes(earlier, route) for earlier in fleet.routes[:number]):
            sentence = f"nothing goes by this route to {route.channel}: one before it takes it all"
            yield Contradiction(("spec", "routes", number), sentence, "put the narrower route first")


def _takes(earlier: Route, later: Route) -> bool:
    rank = -1 if later.severity is None else later.severity.rank
    return (
        earlier.pool in (None, later.pool)
        and earlier.provider in (None, later.provider)
        and (earlier.severity is None or earlier.severity.rank <= rank)
    )
