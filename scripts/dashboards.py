"""Writes the two Grafana dashboards in k8s/monitoring/dashboards: `python scripts/dashboards.py`.

They are written by a program so that panels of one kind look alike and a changed metric is changed in one place. A test
holds that what is committed is what this writes, and that every query finds series.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "k8s/monitoring/dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of a row, in Grafana's units
Json = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One panel. `queries` are (expression, legend)."""

    title: str
    about: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    stacked: bool = False
    red_from: float | None = None  # a threshold above which it is bad


def dashboard(uid: str, title: str, about: str, panels: Sequence[Panel], variables: Sequence[Json]) -> Json:
    """The document that Grafana imports."""
    pools = any(variable["name"] == "pool" for variable in variables)
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["quarantine"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), *variables]},
        "annotations": {"list": [*(_decisions(*one, pools) for one in MARKED), _pushed()]},
        "panels": list(_placed(panels)),
    }


def _placed(panels: Sequence[Panel]) -> Any:
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y = 0, y + 8
        yield _panel(panel, number, x, y)
        x += panel.width


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    instant = panel.kind != "timeseries"
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    custom: Json = {"fillOpacity": 20, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"h": 8, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {} if instant else custom,
            },
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, label: str, metric: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


# What is marked on every panel, each with a switch of its own above them: name, decisions, colour. A counter that was
# looked at twice tells of a decision for two minutes, whatever else was between the two looks.
MARKED = (
    ("Taken out of service", "quarantine", "red"),
    ("Pods asked to leave", "evict", "orange"),
    ("Reset, rebooted or reported", "step", "blue"),
    ("Replaced", "swap", "purple"),
    ("Back in service", "release|dismiss", "green"),
)


def _decisions(name: str, actions: str, colour: str, pools: bool) -> Json:
    chosen = [f'action=~"{actions}"', 'kind="decided"', *(['pool=~"$pool"'] if pools else [])]
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": f"sum by (action, pool) (increase(quarantine_decisions_total{{{','.join(chosen)}}}[2m])) > 0",
        "step": "60s",
        "titleFormat": f"{name}: pool {{{{pool}}}}",
        "tagKeys": "action,pool",
        "textFormat": "quarantine status, and quarantine history NODE, say which machine and why",
    }


def _pushed() -> Json:
    """What the controller has put into Grafana itself: a region for each machine that was out, see docs/grafana.md."""
    return {
        "name": "Machines out",
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": False,
        "iconColor": "yellow",
        "target": {"type": "tags", "tags": ["quarantine"], "matchAny": False, "limit": 100},
    }


POOL = _variable("pool", "Pool", "quarantine_pool_machines")
NAMESPACE = _variable("namespace", "Namespace", "quarantine_build_info")


def pool(metric: str, by: str, *more: str) -> str:
    """Of the chosen pools. Of two replicas one leads; the other's values are as old as its leading."""
    chosen = ",".join(['pool=~"$pool"', *more])
    return f"max by ({by}) ({metric}{{{chosen}}})"


FLEET = (
    Panel(
        "Out of service",
        "Machines that are out for any reason, and those of them that this controller took out.",
        [
            (pool("quarantine_pool_out", "pool"), "{{pool}}: out"),
            (pool("quarantine_pool_quarantined", "pool"), "{{pool}}: by us"),
        ],
        width=12,
    ),
    Panel(
        "Budget left",
        "How many machines more each budget allows. At 0 findings wait.",
        [(pool("quarantine_pool_budget_left", "pool, budget"), "{{pool}}: {{budget}}")],
        width=12,
    ),
    Panel(
        "Open cases by phase",
        "Where the machines are that a case is open for.",
        [(f"sum by (phase) ({pool('quarantine_cases', 'phase, pool')})", "{{phase}}")],
        width=12,
        stacked=True,
    ),
    Panel(
        "Longest in its phase",
        "How long the longest case of each phase has been in it. What does not move waits for somebody.",
        [("max by (phase) (quarantine_case_phase_oldest_seconds) > 0", "{{phase}}")],
        width=12,
        unit="s",
    ),
    Panel(
        "Findings of open cases",
        "By policy: what machines are out for.",
        [('max by (policy) (quarantine_findings{verdict="bad"})', "{{policy}}")],
        width=12,
        stacked=True,
    ),
    Panel(
        "Holds",
        "What would be done, and waits: for a budget, a person, or because many fail together.",
        [("max by (held_by) (quarantine_holds) > 0", "{{held_by}}")],
        width=12,
        stacked=True,
    ),
    Panel(
        "Decisions an hour",
        "What was decided, and what would have been, had nothing stood in the way.",
        [
            (
                'sum by (action, kind) (increase(quarantine_decisions_total{kind=~"decided|held|suspected"}[1h])) > 0',
                "{{action}} ({{kind}})",
            )
        ],
        width=12,
    ),
    Panel(
        "Named as bad now",
        "Series that each policy's trigger names, before any of them is judged.",
        [('max by (policy) (quarantine_policy_verdicts{verdict="bad"}) > 0', "{{policy}}")],
        width=12,
    ),
    Panel(
        "Nodes that a signal is seen of",
        "By exporter. What is not seen is unknown, and neither takes a machine out nor puts it back.",
        [("max by (signal, exporter) (quarantine_signal_nodes)", "{{signal}} ({{exporter}})")],
        kind="table",
        width=12,
    ),
    Panel(
        "Actions of open cases that were given up",
        "What could not be done and is not tried again.",
        [('max by (action) (quarantine_case_actions{outcome="abandoned"})', "{{action}}")],
        kind="table",
        width=12,
    ),
)

MINE = 'namespace=~"$namespace"'
JOIN = "* on (namespace, pod, instance) group_left () quarantine_build_info"


def mine(metric: str, *more: str) -> str:
    """Of the chosen namespaces."""
    return f"{metric}{{{','.join([MINE, *more])}}}"


CONTROLLER = (
    Panel(
        "Last completed cycle",
        "How long ago. It grows where a dependency fails, and is judged by QuarantineCyclesStopped.",
        [(f"time() - max({mine('quarantine_cycle_last_completed_timestamp_seconds')})", "")],
        kind="stat",
        unit="s",
        width=4,
        red_from=300,
    ),
    Panel("Leads", "Which process writes the ledger.", [(mine("quarantine_leader"), "{{pod}}")], kind="stat", width=4),
    Panel(
        "Ledger can be written",
        "At 0 nothing is done to the cluster.",
        [(f"max({mine('quarantine_ledger_writable')})", "")],
        kind="stat",
        width=4,
    ),
    Panel("Mode", "Of the installation.", [(f"{mine('quarantine_mode_info')} == 1", "{{mode}}")], kind="stat", width=4),
    Panel(
        "Policies in force",
        "By their mode. A new one counts as observing until it has settled.",
        [(f"max by (mode) ({mine('quarantine_policies')})", "{{mode}}")],
        kind="stat",
        width=4,
    ),
    Panel(
        "Broken policy files",
        "Whose present version is not in force.",
        [(f"sum({mine('quarantine_policy_file_broken')})", "")],
        kind="stat",
        width=4,
        red_from=1,
    ),
    Panel(
        "Cycles by outcome",
        "Complete: all was answered. Incomplete: something was not. Failed: it ended early.",
        [(f"sum by (outcome) (rate({mine('quarantine_cycles_total')}[$__rate_interval]))", "{{outcome}}")],
        unit="ops",
        stacked=True,
    ),
    Panel(
        "A cycle's stages, on average",
        "Together they should stay below the interval.",
        [
            (
                f"sum by (stage) (rate({mine('quarantine_cycle_duration_seconds_sum')}[$__rate_interval]))"
                f" / sum by (stage) (rate({mine('quarantine_cycle_duration_seconds_count')}[$__rate_interval]))",
                "{{stage}}",
            )
        ],
        unit="s",
        stacked=True,
    ),
    Panel(
        "A cycle's stages, 95th percentile",
        "By stage.",
        [
            (
                "histogram_quantile(0.95, sum by (stage, le) "
                f"(rate({mine('quarantine_cycle_duration_seconds_bucket')}[$__rate_interval])))",
                "{{stage}}",
            )
        ],
        unit="s",
    ),
    Panel(
        "Questions to Prometheus, by policy",
        "How long all questions of a policy took together in the last cycle.",
        [(f"topk(10, max by (policy) ({mine('quarantine_policy_query_duration_seconds')}))", "{{policy}}")],
        unit="s",
    ),
    Panel(
        "Policies without an answer",
        "And what the answer was.",
        [
            (f"count({mine('quarantine_policy_answered')} == 0) or vector(0)", "not answered"),
            (f"max by (policy, kind) ({mine('quarantine_policy_failed')})", "{{policy}}: {{kind}}"),
        ],
    ),
    Panel(
        "Outbox",
        "Actions that waited when the last cycle began.",
        [(f"max by (action) ({mine('quarantine_outbox')})", "{{action}}")],
        stacked=True,
    ),
    Panel(
        "Oldest action in the outbox",
        "How long it has waited.",
        [(f"max({mine('quarantine_outbox_oldest_seconds')})", "oldest")],
        unit="s",
        red_from=1800,
    ),
    Panel(
        "Attempts of the most tried action",
        "Each one waits longer than the one before.",
        [
            (f"max({mine('quarantine_outbox_attempts')})", "attempts"),
            (f"max({mine('quarantine_requests')})", "requests of people"),
        ],
    ),
    Panel(
        "Memory",
        "Resident, of the process.",
        [(f"{mine('process_resident_memory_bytes')} {JOIN}", "{{pod}}")],
        unit="bytes",
    ),
    Panel(
        "Processor",
        "Cores in use.",
        [(f"rate({mine('process_cpu_seconds_total')}[$__rate_interval]) {JOIN}", "{{pod}}")],
    ),
    Panel("Open descriptors", "Files and connections.", [(f"{mine('process_open_fds')} {JOIN}", "{{pod}}")]),
    Panel("Version", "Of each process.", [(mine("quarantine_build_info"), "{{pod}}: {{version}}")], kind="table"),
)

DASHBOARDS = {
    "quarantine-fleet.json": dashboard(
        "quarantine-fleet",
        "Quarantine: fleet triage",
        "What is out of service and why, what waits, and how much may still be taken out.",
        FLEET,
        [POOL],
    ),
    "quarantine-controller.json": dashboard(
        "quarantine-controller",
        "Quarantine: the controller",
        "Whether it works, how long it takes, and what does not answer it.",
        CONTROLLER,
        [NAMESPACE],
    ),
}


def text(document: Json) -> str:
    """As it is committed."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write both."""
    for name, document in DASHBOARDS.items():
        (FOLDER / name).write_text(text(document), encoding="utf-8")


if __name__ == "__main__":
    main()
