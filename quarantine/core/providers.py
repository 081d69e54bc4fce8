"""Who replaces a machine: by its provider id or its node's labels where the fleet file says so, else by its pool."""

from __future__ import annotations

from quarantine.core.case import Case
from quarantine.core.fleet import Provider
from quarantine.core.globs import matches
from quarantine.core.model import Machine, Node
from quarantine.core.policy import Rules


def provider_of_node(node: Node, pool: str, rules: Rules) -> str:
    """Who replaces the machine of a node that is in this pool; empty where nobody is named."""
    claimed = _by_machine(node.machine, rules) or next(
        (p for p in rules.fleet.providers if p.labels and p.labels.items() <= node.labels.items()), None
    )
    return claimed.name if claimed is not None else rules.provider_of(pool)


def provider_of(case: Case, rules: Rules) -> str:
    """Who replaces the case's machine: by the fleet file as it is now, else by what the trail says of the case.

    Labels are the node's, which a case does not keep: what they said is in the trail.
    """
    claimed = _by_machine(case.machine, rules)
    if claimed is not None:
        return claimed.name
    if any(p.name == case.provider and p.labels for p in rules.fleet.providers):
        return case.provider
    pool = next((pool for pool in rules.fleet.pools if pool.name == case.pool), None)
    return pool.provider if pool is not None else case.provider


def spec_of(case: Case, rules: Rules) -> Provider | None:
    """What the fleet file says of the case's provider; None where it says nothing."""
    name = provider_of(case, rules)
    return next((provider for provider in rules.fleet.providers if provider.name == name), None)


def _by_machine(machine: Machine, rules: Rules) -> Provider | None:
    if not machine.provider_id:
        return None
    given = (p for p in rules.fleet.providers if p.provider_id is not None)
    return next((p for p in given if matches(p.provider_id or "", machine.provider_id)), None)
