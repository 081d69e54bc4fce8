"""What the policies see of one node at one moment, in sentences: the answer to "why was nothing done?"."""

from __future__ import annotations

from datetime import datetime, timedelta

from quarantine.core import whynot
from quarantine.core.absence import stock
from quarantine.core.budget import pool_of
from quarantine.core.judge import selects
from quarantine.core.model import Answer, Device, DeviceKind, Failed, FailureKind, Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import readings_of
from quarantine.core.trigger import Form
from quarantine.core.units import format_duration
from quarantine.ports import Metrics

_SILENT = (FailureKind.UNREACHABLE, FailureKind.TIMEOUT)


def what_is_seen(
    metrics: Metrics, rules: Rules, node: Node, *, at: datetime, timeout: timedelta, only: Device | None = None
) -> list[str]:
    """One sentence for each policy that has anything to say of this node (of `only` this device, if given)."""
    found: list[str] = []
    for policy in rules.policies:
        if not selects(policy.spec.node_selector, node):
            found.append(f"policy {policy.name} does not select {node.name}")
            continue
        said, reached = _of_policy(metrics, rules, policy, node, at, timeout, only)
        if said or only is None:
            found += list(dict.fromkeys(said)) or [_nothing(policy, rules, node)]
            found += _expected(policy, rules, node)
        if not reached:
            break  # the next question would only wait as long again
    return found


def _nothing(policy: LoadedPolicy, rules: Rules, node: Node) -> str:
    trigger = policy.spec.trigger
    if trigger.form is Form.ABSENT and rules.signal_of(policy).device is DeviceKind.NODE:
        window = format_duration(trigger.window)
        absent = "that is absent, if the node is ready and other nodes show theirs"
        return f"policy {policy.name} saw no sample of {node.name} within {window}: {absent}"
    return f"policy {policy.name} sees no series of {node.name}: unknown"


def _expected(policy: LoadedPolicy, rules: Rules, node: Node) -> list[str]:
    """How many devices the node should have, where a policy goes by that."""
    kind = rules.signal_of(policy).device
    if policy.spec.trigger.form is not Form.ABSENT or kind is DeviceKind.NODE:
        return []
    expected = stock(node, kind, pool_of(node, rules), None, 0, 0).expected
    return [f"policy {policy.name} expects {expected} of them"] if expected is not None else []


def _of_policy(
    metrics: Metrics,
    rules: Rules,
    policy: LoadedPolicy,
    node: Node,
    at: datetime,
    timeout: timedelta,
    only: Device | None,
) -> tuple[list[str], bool]:
    """The sentences, and whether Prometheus could be reached at all."""
    found = []
    for reading in readings_of(policy, rules):
        for said in whynot.names_of(node, reading):
            for question in whynot.questions(policy, reading, said):
                answers: dict[str, Answer] = {}
                for part, query in question.queries.items():
                    answers[part] = metrics.query(query, at=at, timeout=timeout)
                    if isinstance(answers[part], Failed):
                        break
                sentence = whynot.sentence(question, answers, only)
                if sentence is not None:
                    found.append(sentence)
                if any(isinstance(a, Failed) and a.kind in _SILENT for a in answers.values()):
                    return found, False
    return found, True
