"""A backtest for programs; its keys are described in docs/backtest.md, and only ever added to."""

from __future__ import annotations

from typing import Any

from quarantine.backtest.result import Outage, Result
from quarantine.cli.backtest import words
from quarantine.cli.backtest.words import Report
from quarantine.cli.records import evidence


def as_data(report: Report) -> dict[str, Any]:
    """The documented form; keys are only ever added."""
    difference = report.difference
    data = {"headline": words.headline(report), **_result(report.head)}
    if difference is not None:
        data["base"] = _result(difference.base)
        data["difference"] = {
            "added": [_outage(o, difference.head) for o in difference.added],
            "spared": [_outage(o, difference.base) for o in difference.spared],
            "moved": [
                {"before": _outage(pair.before, difference.base), "after": _outage(pair.after, difference.head)}
                for pair in difference.moved
            ],
            "same": difference.same,
            "gpu_hours": difference.gpu_hours,
        }
    if report.record is not None:
        data["trail"] = {
            "cases": report.record.cases,
            "policies": [
                {name: getattr(s, name) for name in ("policy", "confirmed", "refuted", "returned", "open", "unknown")}
                | {"precision": s.precision}
                for s in report.record.scores
            ],
            "missed": [{"node": c.node, "case": c.id, "opened_at": c.opened_at} for c in report.record.missed],
        }
    return data


def _result(result: Result) -> dict[str, Any]:
    return {
        "start": result.span.start,
        "end": result.span.end,
        "step_seconds": result.span.step.total_seconds(),
        "nodes": result.nodes,
        "gpus": result.gpus,
        "policies": list(result.policies),
        "outages": [_outage(outage, result) for outage in result.outages],
        "held": [
            {
                "node": h.node,
                "policy": h.policy,
                "held_by": str(h.held_by),
                "start": h.start,
                "end": h.end,
                "reason": h.reason,
            }
            for h in result.held
        ],
        "gaps": [{"policy": g.policy, "start": g.start, "end": g.end, "detail": g.detail} for g in result.gaps],
        "unseen": {policy: list(nodes) for policy, nodes in result.unseen.items() if nodes},
        "partly_seen_seconds": {
            policy: {node: lasted.total_seconds() for node, lasted in seen.items()}
            for policy, seen in result.partly.items()
            if seen
        },
        "gpu_hours_out": result.gpu_hours_out(),
        "machine_hours_out": result.machine_hours_out(),
        "gpu_hours": result.gpu_hours(),
        "queries": result.queries,
        "points": result.points,
        "assumptions": list(result.assumptions),
    }


def _outage(outage: Outage, result: Result) -> dict[str, Any]:
    return {
        "node": outage.node,
        "policy": outage.policy,
        "also": list(outage.also),
        "device": outage.device.name,
        "device_kind": str(outage.device.kind),
        "severity": str(outage.severity),
        "start": outage.start,
        "end": outage.end,
        "good_at": outage.good_at,
        "hours": outage.lasted(result.span.end).total_seconds() / 3600,
        "gpus": outage.gpus,
        "reason": outage.reason,
        "evidence": evidence(outage.evidence),
    }
