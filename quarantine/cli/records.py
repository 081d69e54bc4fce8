"""Records as JSON has them, for programs: every field that tells something, under names that stay."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import typer

from quarantine.core.case import Case, Evidence, Leaving, Run, Rung
from quarantine.core.decision import BudgetState, Decision, Dismissal, Hold, PendingEffect, Request, Word
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.model import Machine
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.trace import Trace
from quarantine.core.rulefiles import FILE, RuleFile

Json = dict[str, object]


def as_json(value: object) -> None:
    """One document on stdout. Numbers that JSON does not have are text."""
    typer.echo(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def evidence(found: Evidence | None) -> Json | None:
    """What a verdict was given for."""
    if found is None:
        return None
    return {
        "query": found.query,
        "value": found.value,
        "unit": found.unit,
        "threshold": found.threshold,
        "at": found.at,
        "signal": found.signal,
        "source": found.source,
        "labels": dict(found.labels),
        "covered": found.covered,
        "offenders": found.offenders,
        "others": dict(found.others),
        "note": found.note,
        "series": None if found.trace is None else series(found.trace),
    }


def series(kept: Trace) -> Json:
    """The points around a finding. `raw`: samples as they were scraped; else computed at even steps."""
    return {
        "query": kept.query,
        "raw": kept.raw,
        "bound": kept.bound,
        "bad_above": kept.above,
        "window_since": kept.since,
        "points": kept.points,
        "note": kept.note,
    }


def budget(state: BudgetState) -> Json:
    """A pool's budget as it stood when a decision was taken, in machines."""
    return asdict(state)


def times(known: Milestones) -> Json:
    """When what happened to a case's machine; null: it has not, or not yet."""
    return {
        "found_at": known.found_at,
        "out_at": known.out_at,
        "marked_at": known.marked_at,
        "drained_at": known.drained_at,
        "ticket_at": known.ticket_at,
        "asked_at": known.asked_at,
        "acknowledged_at": known.acknowledged_at,
        "swapped_at": known.swapped_at,
        "back_at": known.back_at,
        "ended_at": known.ended_at,
        "fate": known.fate.value,
    }


def decision(made: Decision) -> Json:
    """A row of the trail, or of a plan."""
    return {
        "node": made.node,
        "device": str(made.device) if made.device else None,
        "policy": made.policy,
        "policy_hash": made.policy_hash,
        "policy_revision": made.policy_revision,
        "verdict": made.verdict.value if made.verdict else None,
        "action": made.action.value,
        "held_by": made.held_by.value if made.held_by else None,
        "reason": made.reason,
        "evidence": evidence(made.evidence),
        "budget": None if made.budget is None else budget(made.budget),
        "machine": None if made.machine is None else machine(made.machine),
        "case": made.case,
        "severity": made.severity.value if made.severity else None,
        "phase": made.phase.value if made.phase else None,
        "effects": [effect.value for effect in made.effects],
        "effect": made.effect.value if made.effect else None,
        "ref": made.ref,
        "pool": made.pool,
        "until": made.until,
        "request": made.request,
        "run": None if made.run is None else run(made.run),
        "leaving": None if made.leaving is None else leaving(made.leaving),
        "step": None if made.rung is None else rung(made.rung),
        "word": None if made.word is None else word(made.word),
        "ends_word": made.unword or None,
    }


def case(c: Case) -> Json:
    """A case as it stands. `deadline`: when a person is told that it does not go on, by its phase alone."""
    limit = TRANSITIONS[c.phase].deadline
    return {
        "id": c.id,
        "node": c.node,
        "phase": c.phase.value,
        "since": c.phase_since,
        "deadline": None if limit is None else c.phase_since + limit,
        "opened_at": c.opened_at,
        "opened_by": c.opened_by,
        "by_person": c.by_person,
        "gate": c.gate,
        "held_by": c.held_by.value if c.held_by else None,
        "reason": c.reason,
        "pool": c.pool,
        "provider": c.provider,
        "machine": machine(c.machine),
        "sent_away": None if c.sent_away is None else machine(c.sent_away),
        "cordoned_by_us": c.cordoned_by_us,
        "put_back": list(c.put_back),
        "findings": [
            {
                "policy": f.policy,
                "device": str(f.device),
                "severity": f.severity.value,
                "verdict": f.verdict.value,
                "since": f.since,
                "evidence": evidence(f.evidence),
            }
            for f in c.findings
        ],
        "effects": {effect.value: {"status": s.status.value, "ref": s.ref} for effect, s in c.effects.items()},
        "runs": [run(one) for one in c.runs],
        "leaving": [leaving(one) for one in c.leaving],
        "steps": [rung(one) for one in c.rungs],
    }


def machine(m: Machine) -> Json:
    """The hardware, as far as it is known."""
    return {
        "node_uid": m.node_uid,
        "provider_id": m.provider_id,
        "system_uuid": m.system_uuid,
        "boot_id": m.boot_id,
        "gpus": list(m.gpus),
        "place": m.place,
    }


def run(r: Run) -> Json:
    """A run of a procedure."""
    return {
        "name": r.name,
        "purpose": r.purpose.value,
        "procedure": r.procedure,
        "asked_at": r.asked_at,
        "until": r.until,
        "outcome": r.outcome.value,
        "started_at": r.started_at,
        "ended_at": r.ended_at,
        "output": r.output,
    }


def leaving(batch: Leaving) -> Json:
    """Pods that were asked to leave together."""
    return {"at": batch.at, "gang": batch.gang, "pods": [{"name": str(pod), "uid": pod.uid} for pod in batch.pods]}


def rung(r: Rung) -> Json:
    """A step of the ladder that was taken."""
    return {"step": r.step.value, "number": r.number, "at": r.at, "procedure": r.procedure}


def word(w: Word) -> Json:
    """A pause, or planned work."""
    return {
        "key": w.key,
        "kind": w.kind.value,
        "scope": w.scope,
        "by": w.by,
        "reason": w.reason,
        "since": w.since,
        "until": w.until,
    }


def dismissal(d: Dismissal) -> Json:
    """What a person has left alone on a machine; of a waiver, everything that is not fatal besides."""
    return {
        "node": d.node,
        "by": d.by,
        "reason": d.reason,
        "until": d.until,
        "waiver": d.waiver,
        "findings": [{"signal": signal, "device": str(device)} for signal, device in d.findings],
    }


def hold(h: Hold) -> Json:
    """What is held, by what it is about."""
    return {"key": h.key, "held_by": h.held_by.value, "reason": h.reason, "since": h.since, "policy": h.policy or None}


def pending(p: PendingEffect) -> Json:
    """What waits to be done."""
    return {
        "case": p.case,
        "effect": p.effect.value,
        "decided_at": p.decided_at,
        "attempts": p.attempts,
        "last_error": p.last_error,
    }


def request(r: Request) -> Json:
    """What was asked."""
    return {
        "id": r.id,
        "kind": r.kind.value,
        "node": r.node,
        "scope": r.scope,
        "until": r.until,
        "actor": r.actor,
        "channel": r.channel,
        "reason": r.reason,
        "at": r.at,
    }


def broken_file(held: Hold, files: Sequence[RuleFile]) -> Json:
    """A policy file that cannot be used. `in_force_since` is null where no version of it is in force."""
    file = held.key.removeprefix(FILE)
    accepted = [one.accepted_at for one in files if one.file == file or one.file.startswith(f"{file.rstrip('/')}/")]
    return {"file": file, "reason": held.reason, "since": held.since, "in_force_since": max(accepted, default=None)}
