"""Rules that people may write: two pools, three policies, and what each asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from quarantine.core.policy import Rules
from tests.core.treatment.life import PROCEDURES
from tests.core.world import flapping, nvlink, policy, rules

RACK, DOMAIN = "dc/rack", "dc/domain"
BIG, SMALL = "gpu", "small"
GROUP = "S0123ABCD"  # of Slack, whose members may approve

drains = st.sampled_from(
    [
        "never",
        "when-idle",
        "now",
        {"when": "after-checkpoint", "deadline": "6h", "then": "now"},
        {"when": "on-restart", "deadline": "1h", "then": "hold"},
    ]
)
RESET, REBOOT = {"do": "reset", "by": "gpu-reset"}, {"do": "reboot", "by": "node-reboot"}
ladders = st.sampled_from(
    [
        [],
        [RESET, REBOOT, {"do": "report"}],
        [RESET, {"do": "replace"}],
        [REBOOT, {"do": "report", "after": "2h"}, {"do": "replace"}],
        [{"do": "report"}],
        [{"do": "report"}, RESET],
        [{"do": "replace"}],
    ]
)
approvals = st.sampled_from(
    [
        {},
        {},
        {"by": GROUP},
        {"within": "2h"},
        {"within": "6h", "then": "replace"},
        {"by": GROUP, "within": "1h", "then": "replace"},
    ]
)
returns = st.sampled_from(
    [
        "by-hand",
        "on-proof",
        {"when": "on-proof", "probation": "10m", "burnIn": "burn-in"},
        {"when": "by-hand", "burnIn": "burn-in"},
    ]
)


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    """What is done about a finding."""
    if draw(st.integers(0, 9)) == 9:
        return {"taint": False}
    found: dict[str, Any] = {
        "drain": draw(drains),
        "ladder": draw(ladders),
        "release": draw(returns),
        "cordon": draw(st.sampled_from([True, True, True, False])),
        "notify": draw(st.booleans()),
    }
    if draw(st.booleans()):
        found["evidence"] = "bug-report"
    if {"do": "replace"} in found["ladder"] and draw(st.booleans()):
        found["approval"] = draw(approvals)
        found["notify"] |= "then" in found["approval"]
    if found["ladder"] and draw(st.integers(0, 3)) == 3:
        found["repeat"] = {"times": 2, "within": "7d"}
    return found


modes = st.sampled_from(["enforce", "enforce", "enforce", "enforce", "observe"])
shares = st.sampled_from(["20%", "100%"])
correlations = st.sampled_from(
    [
        None,
        {"by": ["rack"], "machines": 2, "within": "20m"},
        {"by": ["rack", "job"], "machines": 3, "within": "1h", "settle": "5m"},
        {"by": ["rack", "exporter"], "machines": 2, "within": "1h", "settle": "2m"},
    ]
)


@st.composite
def policies(draw: st.DrawFn) -> list[Any]:
    """Heat, which recovers; NVLink errors, which no measurement clears; and InfiniBand ports that flap."""
    hot = policy(
        severity=draw(st.sampled_from(["warning", "critical"])),
        mode=draw(modes),
        breaker={"maxShare": draw(shares)},
        correlation=draw(correlations),
        response=draw(responses()),
    )
    links = nvlink(
        severity="fatal", mode=draw(modes), recovery=None, breaker={"maxShare": "100%"}, response=draw(responses())
    )
    ports = flapping(
        severity="warning",
        mode=draw(modes),
        breaker={"maxShare": "100%"},
        escalation=draw(st.sampled_from([None, {"findings": 2, "within": "1d"}])),
        response=draw(responses()),
    )
    found = [hot, links, ports]
    return found if draw(st.integers(0, 4)) else found[: draw(st.integers(1, 2))]


PROVIDERS = [
    {"name": "acme", "description": "leases the machines", "acknowledge": "4h", "replace": "2d"},
    {"name": "provider", "description": "has promised nothing"},
]
counts = st.sampled_from([1, 2, 3, "50%", "100%"])


@st.composite
def pools(draw: st.DrawFn) -> list[Mapping[str, Any]]:
    """A large pool in two racks, perhaps with domains and a gate, and one of two machines."""
    budget = {"quarantined": draw(counts), "unavailable": draw(counts), "perHour": draw(counts)}
    big: dict[str, Any] = {"name": BIG, "nodeSelector": {"gpu": "yes"}, "budget": budget}
    big["provider"] = draw(st.sampled_from(["acme", "acme", "provider"]))
    big["drain"] = {
        "evictionsPerMinute": draw(st.sampled_from([1, 5, 100])),
        "machinesAtOnce": draw(st.integers(1, 3)),
    }
    if draw(st.booleans()):
        big["gate"] = {"burnIn": "burn-in"}
    if draw(st.integers(0, 3)) == 3:
        big["domain"] = {"by": "domain", "machines": 2}
    if draw(st.integers(0, 3)) == 3:
        big["spares"] = draw(st.integers(0, 2))
    share = {"quarantined": "20%", "unavailable": "20%", "perHour": "20%"}
    return [big, {"name": SMALL, "nodeSelector": {"gpu": "small"}, "budget": share}]


def law(of_policies: Sequence[Any], of_pools: Sequence[Mapping[str, Any]]) -> Rules:
    """All of it."""
    made = rules(
        *of_policies,
        pools=of_pools,
        topology={"rack": RACK, "domain": DOMAIN},
        place=["dc/rack", "dc/slot"],
        providers=PROVIDERS,
        inventory={"signal": "gpu.temperature"},
        automata=["driver-manager"],
        never_touch=["node-6"],
        maintenance={"labels": {"ops/work": "*"}},
    )
    return replace(made, procedures=PROCEDURES)


laws = st.builds(law, policies(), pools())
