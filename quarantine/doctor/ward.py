"""All checks, made at once: each is bounded in time, and none hides another."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from quarantine.core.errors import QuarantineError, Unavailable
from quarantine.core.units import format_duration
from quarantine.doctor import cluster, grafana, ledger, outward, prometheus, rules, secrets, signals, slack, tickets
from quarantine.doctor.finding import Finding, Level, Skipped, fault, note, unreachable
from quarantine.doctor.patient import Patient
from quarantine.doctor.secrets import mask_of

Check = Callable[[Patient], Iterator[Finding]]

# In the order in which they are told. A check of the same name as the one before goes on with it.
CHECKS: Sequence[tuple[str, Check]] = (
    ("policies", rules.check),
    ("Kubernetes", cluster.check),
    ("Kubernetes rights", cluster.check_rights),
    ("leader", cluster.check_leader),
    ("Prometheus", prometheus.check),
    ("exporters", prometheus.check_exporters),
    ("signals", signals.check_shares),
    ("queries", signals.check_queries),
    ("ledger", ledger.check),
    ("trail", ledger.check_whose),
    ("Slack", slack.check),
    ("tickets", tickets.check),
    ("alarms", outward.check),
    ("charts", outward.check_charts),
    ("Grafana", grafana.check),
    ("secrets", secrets.check),
)


@dataclass(slots=True)
class _Running:
    """One check on its thread."""

    name: str
    found: list[Finding] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self, check: Check, patient: Patient) -> None:
        try:
            for finding in check(patient):
                self.found.append(finding)
        except Skipped as reason:
            self.found.append(note(f"not looked at, since {reason}"))
        except Unavailable as error:
            self.found.append(unreachable(str(error)))
        except QuarantineError as error:
            self.found.append(fault(str(error)))
        except Exception as error:  # noqa: BLE001  (a defect of one check must not hide what the others have found)
            place = traceback.extract_tb(error.__traceback__)[-1]  # and not what it says, which may hold anything
            said = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            self.found.append(fault(f"this check met a defect of the program ({said})", "report it with this sentence"))
        finally:
            self.ended.set()


def examine(patient: Patient, within: timedelta, checks: Sequence[tuple[str, Check]] = CHECKS) -> list[Finding]:
    """What all checks find within that time, in their order; of one that takes longer, what it has found by then."""
    running = [_Running(name) for name, _ in checks]
    for one, (_, check) in zip(running, checks, strict=True):
        # Daemons: what hangs in a driver or a name look-up must not keep the process.
        threading.Thread(target=one.run, args=(check, patient), name=f"check-{one.name}", daemon=True).start()
    until = time.monotonic() + within.total_seconds()
    found: list[Finding] = []
    mask = mask_of(patient.settings)
    for one in running:
        in_time = one.ended.wait(max(0.0, until - time.monotonic()))
        late = [] if in_time else [_late(within)]
        found += [mask(replace(finding, check=one.name)) for finding in [*one.found, *late]]
    return found


def worst(findings: Iterable[Finding]) -> Level:
    """The worst of them; good where there is none."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.GOOD)


def _late(within: timedelta) -> Finding:
    return unreachable(
        f"this check did not end within {format_duration(within)}",
        "see what is slow there, or give it more time by --within",
    )
