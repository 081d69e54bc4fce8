"""Mistakes that people make in policy files, and what they are told.

By file: (what stands there once, what is written instead, how many lines below the first of it the fault is, message,
part of the hint).
"""

from __future__ import annotations

EXPR = "expr: rate(node_infiniband_port_data_received_bytes_total[2m])"
GPU = 'nvidia.com/gpu.present: "true"'
SIGNAL = "  signal: gpu.temperature"

MISTAKES: dict[str, list[tuple[str, str, int, str, str]]] = {
    "gpu-hot.yaml": [
        ("  owner:", "\towner:", 0, "a tab stands here", "spaces"),
        ("    above: 78", "    above: 78\n    above: 79", 1, "key `above` is there twice, first in", "keep one"),
        (
            "above: 78",
            "treshold: 78\n    above: 78",
            0,
            "unknown field `treshold` in spec.trigger",
            "known here: above",
        ),
        ("    tolerate:", "    tolerrate:", 0, "unknown field `tolerrate` in spec.trigger", "did you mean `tolerate`?"),
        ("maxShare: 10%", "max_share: 10%", 0, "unknown field `max_share` in spec.breaker", "did you mean `maxShare`?"),
        ("    for: 5m", "    lasting: 5m", 0, "unknown field `lasting` in spec.trigger", "did you mean `for`?"),
        ("above: 78", 'above: "78"', 0, "spec.trigger.above must be a number, and is text '78'", "remove the quotes"),
        ("above: 78", "above: hot", 0, "spec.trigger.above must be a number, and is text 'hot'", ""),
        ("above: 78", "above:", 0, "spec.trigger.above has no value", "give one"),
        ("above: 78", "above: true", 0, "spec.trigger.above must be a number, and is true", ""),
        ("above: 78", "above: .nan", 0, "`.nan` is no number", ""),
        ("above: 78", "above: [78]", 0, "spec.trigger.above must be a number, and is a list", ""),
        (
            "above: 78\n    for: 5m",
            "above: 78\n    below: 10\n    for: 5m",
            -1,
            "exactly one of above, below and events",
            "",
        ),
        ("for: 5m", "for: 5 minutes", 0, "spec.trigger.for: '5 minutes' is no duration", ""),
        ("for: 5m", "for: 300", 0, "spec.trigger.for: 300 is no duration", ""),
        ("for: 5m", "for: 30s", -2, "a trigger over 30s never fires", ""),
        ("tolerate: 10%", "tolerate: 10", 0, "spec.trigger.tolerate: 10 is no share", ""),
        (
            "severity: critical",
            "severity: crtical",
            0,
            "spec.severity must be warning or critical or fatal",
            "did you mean critical?",
        ),
        ("mode: observe", "mode: off", 0, "`off` is a boolean to some", "quotes"),
        (
            "cordon: true",
            'cordon: "true"',
            0,
            "spec.response.cordon must be true or false, and is text 'true'",
            "remove the quotes",
        ),
        ("ticket: report", "ticket: close", 0, "spec.response.ticket must be none or report, and is text 'close'", ""),
        ("  owner: infrastructure on call\n", "", -10, "spec.owner is missing", "Who answers for it"),
        ("name: gpu-hot", "name: GPU hot", 0, "metadata.name: 'GPU hot' is no name", ""),
        ("kind: Policy", "kind: Polcy", 0, "there is no kind text 'Polcy'", "did you mean Policy?"),
        ("kind: Policy", "kind: [Policy]", 0, "there is no kind a list", "a document is a Signal"),
        ("v1alpha1", "v2", 0, "apiVersion is text 'quarantine.gpu/v2'", "write quarantine.gpu/v1alpha1"),
        ("below: 72", "below: 80", -2, "recovery below 80 contradicts the trigger at 78", ""),
        (
            "signal: gpu.temperature",
            "signal: gpu.temperatur",
            0,
            "no signal is called 'gpu.temperatur'",
            "did you mean gpu.temperature?",
        ),
        ("signal: gpu.tensor-active", "signal: gpu.load", 0, "no signal is called 'gpu.load'", ""),
        (
            SIGNAL,
            f"  nodeSelector: {{gpu: true}}\n{SIGNAL}",
            0,
            "spec.nodeSelector.gpu must be text, and is true",
            "put it in quotes",
        ),
        (SIGNAL, f"  nodeSelector: {{a b: x}}\n{SIGNAL}", 0, "'a b' can be no label of a node", ""),
        (SIGNAL, f"  nodeSelector: {{a: -x}}\n{SIGNAL}", 0, "'-x' can be no value of a node's label", ""),
    ],
    "fleet.yaml": [
        ("      budget:", "      size:\n      budget:", 0, "spec.pools[0].size has no value", "remove the key"),
        (
            "quarantined: 5%",
            'quarantined: "5"',
            0,
            "spec.pools[0].budget.quarantined must be a share such as 5% or a whole number",
            "",
        ),
        (
            "perHour: 2%",
            "perHour: 0",
            0,
            "spec.pools[0].budget.perHour must be a share such as 5% or a whole number",
            "",
        ),
        (GPU, "nvidia.com/gpu.present: true", 0, "must be text, and is true", "put it in quotes"),
        (GPU, 'NVIDIA/gpu: "true"', 0, "'NVIDIA/gpu' can be no label of a node", ""),
        ("  pools:\n", "  pools:\n    # none\n  pool:\n", 2, "unknown field `pool` in spec", "did you mean `pools`?"),
        ("  pools:\n", "  matchers: {a-b: x}\n  pools:\n", 0, "spec.matchers['a-b']: 'a-b' is no label name", ""),
    ],
    "nvlink-errors.yaml": [
        ("events: 10", "events: 0", 0, "spec.trigger.events must be at least 1", ""),
        ("events: 10", "events: 1.5", 0, "spec.trigger.events must be a whole number, and is the number 1.5", ""),
        ("within: 10m", "for: 10m", -2, "spec.trigger: events need within, and no for", ""),
    ],
    "signals.yaml": [
        (EXPR, "expr: rate(x[2m]", 0, "expr is no PromQL: unclosed left parenthesis", ""),
        (EXPR, "expr: x", 0, "expr has the bare selector x", "write last_over_time(x[1m])"),
        (EXPR, "expr: rate(x[2m] @ end())", 0, "expr uses @", "remove"),
        (EXPR, "expr: 'sum(rate(x[2m]))'", 0, "aggregates away instance", ""),
        ("- DCGM_FI_DEV_GPU_TEMP", "- DCGM FI", 0, "spec.sources[0].metrics[0]: 'DCGM FI' is no metric name", ""),
        ("    min: 1\n    max: 129", "    min: 129\n    max: 1", -1, "min 129 is not below max 1", ""),
        ("max: 129", "max: &top 129", 0, "anchors", "repeat"),
        ("max: 129", "max: !!int 129", 0, "tags", "remove it"),
    ],
}
