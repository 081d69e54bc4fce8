"""A report for programs. Its keys are described in docs/report.md, and only ever added to."""

from __future__ import annotations

from datetime import timedelta

from quarantine.cli.records import Json
from quarantine.core.record.report import Report
from quarantine.core.record.report.failures import FailureRate
from quarantine.core.record.report.measure import Spread


def as_data(report: Report, note: str) -> Json:
    """The documented form. Lengths of time are in seconds, null where there is none."""
    return {
        "since": report.since,
        "until": report.until,
        "clusters": list(report.clusters),
        "note": note or None,
        "empty": report.empty,
        "cases": report.cases,
        "machines": report.machines,
        "causes": [
            {
                "by": c.by,
                "policy": c.policy or None,
                "signal": c.signal or None,
                "cases": c.opened,
                "taken_out": c.out,
                "severities": dict(c.severities),
            }
            for c in report.causes
        ],
        "times": {name: _spread(found) for name, found in report.times.items()},
        "pools": [
            {
                "cluster": p.cluster,
                "pool": p.pool,
                "outages": p.outages,
                "still_out": p.still_out,
                "machine_hours": p.hours,
                "pool_hours": p.hours_of_pool,
                "share": p.share,
                "gpu_hours": p.gpu_hours,
            }
            for p in report.pools
        ],
        "providers": _providers(report),
        "failures": [_rate(rate) for rate in report.failures],
        "all_failures": None if report.all_failures is None else _rate(report.all_failures),
        "checkpoint_seconds": report.wanted.checkpoint.total_seconds(),
        "jobs": [
            {
                "cluster": j.cluster,
                "pool": j.pool,
                "gpus": j.gpus,
                "nodes": j.nodes,
                "mean_seconds": _seconds(j.mean),
                "low_seconds": _seconds(j.at_least),
                "high_seconds": _seconds(j.at_most),
                "young_seconds": _seconds(j.young),
                "daly_seconds": _seconds(j.daly),
            }
            for j in report.jobs
        ],
        "worst": [
            {
                "machine": m.machine or None,
                "nodes": list(m.nodes),
                "clusters": list(m.clusters),
                "pool": m.pool,
                "provider": m.provider or None,
                "score": m.score,
                "cases": m.opened,
                "taken_out": m.out,
                "told": m.told,
                "refuted": m.refuted,
                "machine_hours": m.hours_out,
            }
            for m in report.worst
        ],
        "policies": [
            {name: getattr(p, name) for name in ("policy", "confirmed", "refuted", "returned", "open", "precision")}
            for p in report.policies
        ],
        "holds": [
            {
                "held_by": h.held_by,
                "policy": h.policy or None,
                "holds": h.count,
                "began": h.began,
                "standing": h.standing,
                "total_seconds": h.total.total_seconds(),
                "lengths": _spread(h.lengths),
                "then_taken_out": h.led_to_quarantine,
                "machine_hours_in_service": h.in_service,
                "machines": h.machines,
            }
            for h in report.holds
        ],
    }


def _providers(report: Report) -> list[Json]:
    """Machine-hours of all that have machines, with the score of those that were told anything."""
    hours = {p.provider: p for p in report.providers}
    scores = {p.provider: p for p in report.provider_scores}
    return [
        {
            "provider": name or None,
            "outages": hours[name].outages if name in hours else 0,
            "still_out": hours[name].still_out if name in hours else 0,
            "machine_hours": hours[name].hours if name in hours else 0.0,
            "told": score.told if score else 0,
            "asked": score.asked if score else 0,
            "acknowledged": _spread(score.acknowledged) if score else None,
            "replaced": _spread(score.replaced) if score else None,
            "waiting": score.waiting if score else 0,
            "waiting_longest_seconds": _seconds(score.waiting_longest) if score else None,
            "confirmed": score.confirmed if score else 0,
            "no_fault_found": score.refuted if score else 0,
            "not_said": score.unsaid if score else 0,
            "same_returned": score.same_returned if score else 0,
            "machine_hours_owed": score.hours_owed if score else 0.0,
        }
        for name in sorted({*hours, *scores})
        for score in [scores.get(name)]
    ]


def _rate(rate: FailureRate) -> Json:
    return {
        "cluster": rate.cluster or None,
        "pool": rate.pool or None,
        "failures": rate.failures,
        "confirmed": rate.confirmed,
        "uncounted": rate.uncounted,
        "node_days": rate.node_days,
        "gpus_per_node": rate.gpus_per_node,
        "per_1000_node_days": rate.rate,
        "low": rate.low,
        "high": rate.high,
    }


def _spread(found: Spread | None) -> Json | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "min_seconds": _seconds(found.least),
        "median_seconds": _seconds(found.median),
        "p90_seconds": _seconds(found.p90),
        "max_seconds": _seconds(found.most),
    }


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
