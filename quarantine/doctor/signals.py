"""The policies' signals: for which share of each pool's nodes there are any, and what each policy's queries meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from quarantine.adapters.policyfiles.promqlcheck import selectors
from quarantine.core import promql
from quarantine.core.budget import members_of
from quarantine.core.identity import Directory
from quarantine.core.judge import selects
from quarantine.core.model import Mode, Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import readings_of
from quarantine.doctor.finding import Finding, Skipped, fault, good, note, warning
from quarantine.doctor.patient import Patient
from quarantine.livecheck import Moment, Remark, hold_against
from quarantine.livecheck.asking import Ask, Rejected
from quarantine.livecheck.nodes import Seen, from_kube_state_metrics, some

_TOLD = 3  # sentences about the sources of one signal


@dataclass(slots=True)
class _Share:
    """Of one signal: which nodes are meant, by pool, and which are seen."""

    seen: Seen = field(default_factory=Seen)
    meant: dict[str, set[str]] = field(default_factory=dict)

    @property
    def nowhere(self) -> bool:
        """Whether it is meant for nodes, and none of them shows it."""
        meant = set().union(*self.meant.values())
        return bool(meant) and not meant & self.seen.names


def check_shares(patient: Patient) -> Iterator[Finding]:
    """For each signal, how many of the nodes of each pool show it now."""
    metrics, rules, settings = patient.answering_metrics(), patient.rules(), patient.settings.prometheus
    ask = Ask(metrics, patient.now() - settings.delay, settings.timeout)
    nodes = patient.known_nodes()
    if nodes is None:
        nodes = from_kube_state_metrics(ask, rules)
    if nodes is None:
        raise Skipped("the nodes are known neither from Kubernetes nor from kube-state-metrics")
    shares: dict[str, _Share] = {}
    for policy in rules.policies:
        _look(ask, policy, rules, nodes, shares.setdefault(policy.measures, _Share()))
    nowhere = [measures for measures, share in sorted(shares.items()) if share.nowhere]
    for measures, share in sorted(shares.items()):
        if not share.nowhere:
            yield _told(measures, share)
    if nowhere:
        yield warning(
            f"no node shows: {', '.join(nowhere)}",
            "nothing is known by them: see the queries below, and turn on what is wanted at its exporter",
        )
    strangers = sorted({name for share in shares.values() for name in share.seen.strangers})
    if strangers:
        yield warning(
            f"series name {len(strangers)} nodes that are not in the cluster: {some(strangers)}",
            "what they say is never acted on; correct `node` in the signal's source, or the fleet's matchers",
        )


def _look(ask: Ask, policy: LoadedPolicy, rules: Rules, nodes: Mapping[str, Node], share: _Share) -> None:
    for pool, members in members_of(nodes, rules).items():
        meant = {node.name for node in members if selects(policy.spec.node_selector, node)}
        share.meant.setdefault(pool, set()).update(meant)
    directory = Directory.of(nodes)
    for reading in readings_of(policy, rules):
        answer = ask(promql.coverage(policy, reading))
        if not isinstance(answer, Rejected):
            share.seen.add(reading, answer, directory)


def _told(measures: str, share: _Share) -> Finding:
    parts, lacking = [], set[str]()
    for pool, meant in share.meant.items():
        if meant:
            parts.append(f"pool {pool} {len(meant & share.seen.names)} of {len(meant)} nodes")
            lacking |= meant - share.seen.names
    if not parts:
        return note(f"{measures}: it is for no node that there is")
    said = f"{measures}: {'; '.join(parts)}"
    if not lacking:
        return good(said)
    return warning(
        f"{said}; without it: {some(sorted(lacking))}",
        "of a node that lacks a signal nothing is known by it: turn the metric on there, if it is wanted",
    )


def check_queries(patient: Patient) -> Iterator[Finding]:
    """What `quarantine policy check --prometheus` says. Of a policy that only observes, it is no fault."""
    metrics, rules, settings = patient.answering_metrics(), patient.rules(), patient.settings.prometheus
    moment = Moment(patient.now() - settings.delay, settings.timeout)
    live = hold_against(metrics, rules, moment, parse=selectors, nodes=patient.known_nodes() or {})
    acting = {policy.name for policy in rules.policies if policy.spec.mode is Mode.ENFORCE}
    by_acting = {policy.spec.signal for policy in rules.policies if policy.name in acting}
    unseen = {policy.spec.signal for policy in rules.policies if not live.series.get(policy.name)}
    partly: dict[str, list[Remark]] = {}
    for remark in live.remarks:
        if remark.severity == "fault":
            acts = remark.name in (acting if remark.kind == "Policy" else by_acting)
            named = f"{remark.kind.lower()} {remark.name}"
            sentence = remark.sentence if named in remark.sentence else f"{named}: {remark.sentence}"
            yield (fault if acts else warning)(sentence, remark.hint or "see the policy's files")
        elif (
            remark.kind == "Signal" and remark.name not in unseen
        ):  # of policies, nodes are noted: the shares have them
            partly.setdefault(remark.name, []).append(remark)
    for name, remarks in sorted(partly.items()):
        sentences = list(dict.fromkeys(remark.sentence for remark in remarks))
        more = f" (and {len(sentences) - _TOLD} more)" if len(sentences) > _TOLD else ""
        yield note(f"signal {name}: {'; '.join(sentences[:_TOLD])}{more}", remarks[0].hint)
    seeing = sum(1 for count in live.series.values() if count)
    if seeing:
        yield good(f"{seeing} of {len(rules.policies)} policies find series for their queries")
