"""Who replaces a machine: by its provider id, by its node's labels, or by its pool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quarantine.core.case import Case
from quarantine.core.decision import State
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.providers import provider_of, provider_of_node, spec_of
from tests.core.world import after, fleet, hot, node, policy, rules, snapshot

POOLS = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "provider": "house", "budget": {"quarantined": "50%"}}]
HOUSE = {"name": "house", "description": "whoever has no other", "acknowledge": "4h"}
BY_ID = {"name": "acme", "description": "leases some", "providerId": "acme://*"}
BY_LABEL = {"name": "lab", "description": "lends some", "labels": {"owner": "lab", "dc": "fra1"}}


def law(*providers: object) -> Rules:
    return rules(policy(), pools=POOLS, providers=[HOUSE, *providers])


@pytest.mark.parametrize(
    ("providers", "labels", "provider_id", "who"),
    [
        ((), {}, "acme://a", "house"),
        ((BY_ID,), {}, "acme://a", "acme"),
        ((BY_ID,), {}, "other://a", "house"),
        ((BY_ID,), {}, "", "house"),
        ((BY_LABEL,), {"owner": "lab", "dc": "fra1"}, "acme://a", "lab"),
        ((BY_LABEL,), {"owner": "lab"}, "acme://a", "house"),
        ((BY_LABEL, BY_ID), {"owner": "lab", "dc": "fra1"}, "acme://a", "acme"),
    ],
)
def test_the_id_decides_before_labels_and_both_before_the_pool(
    providers: tuple[object, ...], labels: dict[str, str], provider_id: str, who: str
) -> None:
    base = node("node-3")
    machine = replace(base.machine, provider_id=provider_id)
    assert provider_of_node(replace(base, machine=machine, labels=labels), "gpu", law(*providers)) == who


def case_of(found: Rules, labels: dict[str, str]) -> Case:
    nodes = fleet()
    nodes["node-3"] = replace(nodes["node-3"], labels={**nodes["node-3"].labels, **labels})
    (case,) = after(State(), plan(snapshot(nodes, hot("node-3")), found)).cases.values()
    return case


def test_what_the_labels_said_is_kept_in_the_trail() -> None:
    found = law(BY_LABEL)
    case = case_of(found, {"owner": "lab", "dc": "fra1"})
    assert case.provider == "lab"
    assert provider_of(case, found) == "lab"
    assert provider_of(case, law()) == "house", "a provider that is no more has no machines"


def test_a_fleet_file_that_was_corrected_counts_for_open_cases() -> None:
    case = case_of(law(), {})
    assert case.provider == "house"
    assert provider_of(case, law(BY_ID)) == "acme"
    spec = spec_of(case, law())
    assert spec is not None
    assert spec.acknowledge is not None
    assert spec_of(case, rules(policy())) is None
