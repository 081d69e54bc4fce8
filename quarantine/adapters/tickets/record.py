"""What a ticket is on disk: the JSON document's schema, and how it is made from a case's report.

The schema is our own and versioned, apart from the report's class, so that the program can change without losing old
tickets. Only hardware labels enter it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from quarantine.adapters.tickets.hardware import hardware_only
from quarantine.adapters.tickets.markdown import clean
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.tickets import TicketState


class _Stored(BaseModel):
    # Additions of the provider's own scripts are kept when the ticket is written again.
    model_config = ConfigDict(extra="allow", frozen=True)


class StoredFault(_Stored):
    """One finding: what, where, since when, value against threshold."""

    policy: str
    why: str
    device: str
    category: str
    severity: str
    since: AwareDatetime
    value: str
    threshold: str
    query: str
    labels: dict[str, str]


class StoredMachine(_Stored):
    """The hardware, as far as its Node object and its exporters tell."""

    provider_id: str
    system_uuid: str
    boot_id: str
    node_uid: str
    place: str = ""
    gpus: tuple[str, ...] = ()


class Comment(_Stored):
    """What was added later. `key`: of the update that added it; one of an earlier version has none."""

    at: AwareDatetime
    text: str
    key: str = ""


class TicketRecord(_Stored):
    """The whole ticket."""

    version: Literal[1] = 1
    ref: str
    key: str
    status: str = Field(default="open", min_length=1, max_length=100)
    ask: str
    title: str
    cluster: str
    pool: str
    provider: str
    provider_description: str = ""  # a ticket of an earlier version has none of these two
    contact: str = ""
    node: str
    machine: StoredMachine
    reason: str
    opened_at: AwareDatetime
    opened_by: str
    filed_at: AwareDatetime
    faults: tuple[StoredFault, ...]
    history: str = ""  # nor of these six
    tried: tuple[str, ...] = ()
    evidence: str = ""
    swap: str = ""
    earlier: tuple[str, ...] = ()
    assets: dict[str, str] = Field(default_factory=dict)
    comments: tuple[Comment, ...] = ()
    closed_at: AwareDatetime | None = None
    close_reason: str = ""

    @property
    def open(self) -> bool:
        """Whether it is still worked on."""
        return not self.state.is_verdict

    @property
    def state(self) -> TicketState:
        """What its status says: one of our words, or one of somebody's who works on it."""
        word = "-".join(self.status.strip().lower().replace("_", "-").split())
        if word in ("open", "new", TicketState.FILED):
            return TicketState.FILED
        return TicketState(word) if word in set(TicketState) else TicketState.IN_PROGRESS


def record_of(report: CaseReport, *, ref: str, filed_at: datetime) -> TicketRecord:
    """The record of a ticket that is filed now. Text is cleaned of control characters."""
    return TicketRecord(
        ref=ref,
        key=report.key,
        ask=clean(report.ask),
        title=clean(report.title),
        cluster=clean(report.cluster),
        pool=clean(report.pool),
        provider=clean(report.provider),
        provider_description=clean(report.provider_description),
        contact=clean(report.provider_contact),
        node=clean(report.node),
        machine=StoredMachine(
            provider_id=clean(report.machine.provider_id),
            system_uuid=clean(report.machine.system_uuid),
            boot_id=clean(report.machine.boot_id),
            node_uid=clean(report.machine.node_uid),
            place=clean(report.machine.place),
            gpus=tuple(clean(uuid) for uuid in report.machine.gpus),
        ),
        reason=clean(report.reason),
        opened_at=report.opened_at,
        opened_by=clean(report.opened_by),
        filed_at=filed_at,
        faults=tuple(_fault(fault) for fault in report.faults),
        history=clean(report.history),
        tried=tuple(clean(step) for step in report.tried),
        evidence=clean(report.evidence_output),
        swap=clean(report.swap),
        earlier=tuple(clean(ref) for ref in report.earlier),
        assets={clean(name): clean(value) for name, value in report.assets},
    )


def _fault(fault: Fault) -> StoredFault:
    return StoredFault(
        policy=clean(fault.policy),
        why=clean(fault.why),
        device=clean(fault.device),
        category=clean(fault.category),
        severity=clean(fault.severity),
        since=fault.since,
        value=clean(fault.value),
        threshold=clean(fault.threshold),
        query=clean(fault.query),
        labels={clean(name): clean(value) for name, value in hardware_only(fault.labels)},
    )
