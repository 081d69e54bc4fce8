"""What is wrong with what is to be done: responses, gates and domains that cannot be as they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from quarantine.core.case import Step
from quarantine.core.compatible import Where
from quarantine.core.contradiction import Contradiction
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import DeviceKind
from quarantine.core.response import LadderStep, Moment, Response
from quarantine.core.signal import SignalSpec

# What machines share without a label of theirs that says it: a training job, and the exporter that tells of them.
NEEDS_NO_LABEL = ("job", "exporter")

_RESPONSE: Where = ("spec", "response")


def response_contradictions(
    response: Response, procedures: Collection[str], fleet: FleetSpec | None
) -> Iterator[Contradiction]:
    """What a policy asks for and cannot have, or asks for in an order that makes no sense."""
    named: list[tuple[Where, str | None]] = [((*_RESPONSE, "evidence"), response.evidence)]
    named += [((*_RESPONSE, "ladder", n, "by"), step.by) for n, step in enumerate(response.ladder)]
    named.append(((*_RESPONSE, "release", "burnIn"), response.release.burn_in))
    for at, name in named:
        if name is not None and name not in procedures:
            yield no_procedure(at, name, procedures)
    yield from _ladder(response.ladder)
    if response.drain.when is Moment.AFTER_CHECKPOINT and fleet is not None:
        told = fleet.workloads.checkpoint
        if told.annotation is None and told.query is None:
            sentence = "a drain after the checkpoint never comes: nothing tells when a checkpoint was written"
            hint = "give `workloads.checkpoint` in the Fleet document an annotation or a query"
            yield Contradiction((*_RESPONSE, "drain"), sentence, hint)


def _ladder(ladder: tuple[LadderStep, ...]) -> Iterator[Contradiction]:
    done: dict[Step, int] = {}
    for number, step in enumerate(ladder):
        at: Where = (*_RESPONSE, "ladder", number)
        if Step.REPLACE in done:
            sentence = f"{step.do} stands after replace, and nothing is left of the machine then"
            yield Contradiction(at, sentence, "put replace last")
            return
        if step.do is Step.REPORT and Step.REPORT in done:
            sentence = f"the machine is reported twice, first in step {done[Step.REPORT] + 1}"
            yield Contradiction(at, sentence, "remove one; what is done later is added to the ticket")
        done.setdefault(step.do, number)


def no_procedure(at: Where, name: str, procedures: Collection[str]) -> Contradiction:
    """A name of a procedure that nobody wrote."""
    known = ", ".join(sorted(procedures)) or "none"
    sentence = f"no procedure is called {name!r} (known: {known})"
    hint = "write a document of kind Procedure; policies/procedures.yaml has examples"
    return Contradiction(at, sentence, hint, missing=name, wants="Procedure")


# --- The fleet --------------------------------------------------------------------------------------------------------


def care_contradictions(
    fleet: FleetSpec, signals: Mapping[str, SignalSpec], procedures: Collection[str]
) -> Iterator[Contradiction]:
    """What the fleet says of machines that are taken out and come back, and cannot be so."""
    for name in NEEDS_NO_LABEL:
        if name in fleet.topology:
            sentence = f"{name} is no label's name here: a correlation by {name} goes by what is seen itself"
            yield Contradiction(("spec", "topology", name), sentence, "give it another name")
    for number, pool in enumerate(fleet.pools):
        at: Where = ("spec", "pools", number)
        if pool.gate is not None and pool.gate.burn_in not in procedures:
            yield no_procedure((*at, "gate", "burnIn"), pool.gate.burn_in, procedures)
        if pool.domain is not None and pool.domain.by not in fleet.topology:
            known = ", ".join(fleet.topology) or "none"
            sentence = f"the fleet's topology has no {pool.domain.by!r} (known: {known})"
            yield Contradiction((*at, "domain", "by"), sentence)
    yield from _inventory(fleet, signals)


def _inventory(fleet: FleetSpec, signals: Mapping[str, SignalSpec]) -> Iterator[Contradiction]:
    if fleet.inventory is None:
        return
    at: Where = ("spec", "inventory", "signal")
    name = fleet.inventory.signal
    signal = signals.get(name)
    if signal is None:
        yield Contradiction(at, f"no signal is called {name!r}", missing=name)
    elif signal.device is not DeviceKind.GPU:
        yield Contradiction(at, f"the inventory is of GPUs, and {name} is about {signal.device}")
    elif any(source.expr is not None for source in signal.sources):
        sentence = f"the inventory looks back at metrics, and {name} has a source with expr"
        yield Contradiction(at, sentence, "use a signal whose sources name metrics")
