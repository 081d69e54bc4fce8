"""What is sent to a receiver and what it says, as models: `docs/tickets/webhook.schema.json` is made from them.

Both sides ignore fields that they do not know; a change that is more than an addition gets another version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from quarantine.adapters.tickets.keys import KEY
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.record import StoredFault, StoredMachine, record_of
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Ticket, TicketState

# A reference is a word of a URL's path: no dot at its start, nothing to encode.
REF = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$"

Key = Annotated[str, Field(pattern=f"^{KEY}$")]
Ref = Annotated[str, Field(pattern=REF)]
_Line = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class NewTicket(_Body):
    """Body of POST /tickets. The same `key` again is the same ticket, whatever else is said."""

    version: Literal[1] = 1
    key: Key
    ask: str = Field(description="report: the machine is reported, and its exchange asked for; replace: it may go now")
    title: str
    text: str = Field(description="the whole letter for people, plain")
    markdown: str = Field(description="the same as Markdown")
    cluster: str
    pool: str
    provider: str
    contact: str
    node: str
    machine: StoredMachine
    assets: dict[str, str] = Field(description="what the provider calls the machine, by name: its serial number")
    reason: str
    opened_at: AwareDatetime
    opened_by: str
    faults: tuple[StoredFault, ...]
    history: str
    earlier: tuple[str, ...] = Field(description="tickets about the same machine from before, the oldest first")
    tried: tuple[str, ...]
    evidence: str
    swap: str


class NewUpdate(_Body):
    """Body of POST /tickets/{ref}/updates. The same `key` again for a ticket adds nothing."""

    version: Literal[1] = 1
    key: Key
    text: str
    close: bool = Field(description="and the ticket has ended with it")


class NewAttachment(_Body):
    """Body of POST /tickets/{ref}/attachments. The same `sha256` again for a ticket adds nothing."""

    version: Literal[1] = 1
    name: str
    media_type: str
    sha256: str
    content: str = Field(description="Base64")


class TicketNow(_Body):
    """A ticket as the receiver has it: its answer to everything that opens or reads one."""

    ref: Ref
    key: Key
    status: _Line = Field(min_length=1, description="in the receiver's own word")
    state: TicketState | None = Field(default=None, description="in ours; without it, the status is looked up")
    open: bool | None = Field(default=None, description="whether it is still worked on; without it, the state says so")
    url: str = Field(default="", max_length=2000, pattern=r"^(https?://[\x21-\x7e]+)?$")

    def ticket(self, states: Mapping[str, TicketState]) -> Ticket:
        """As the port has it. `states`: what the target's options say of status words, in lower case."""
        state = self.state or _state(self.status, states)
        if state is None:
            state = TicketState.CLOSED if self.open is False else TicketState.IN_PROGRESS
        is_open = not state.is_verdict if self.open is None else self.open
        if not is_open and not state.is_verdict:
            state = TicketState.CLOSED
        return Ticket(self.ref, self.key, one_line(self.status), self.url, state, is_open)


class TicketsNow(_Body):
    """Answer to GET /tickets?key=: all tickets with exactly this key, open and closed, oldest first."""

    tickets: tuple[TicketNow, ...]


class Missing(_Body):
    """Body of a 404 for a ticket that does not exist. Without it, a 404 is taken for a wrong URL."""

    missing: Ref


class Callback(TicketNow):
    """What the receiver may POST to us when a ticket changes."""

    version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,200}$")] = Field(
        description="of this word; again, it is the same"
    )
    at: AwareDatetime = Field(description="when the ticket became so: words may overtake one another")
    text: str = Field(default="", max_length=20_000, description="what the provider says, for people")


def new_ticket(report: CaseReport, letter: Letter) -> NewTicket:
    """The body that files a report. Only hardware labels are in it."""
    record = record_of(report, ref=report.key, filed_at=report.opened_at)
    fields = record.model_dump(include=set(NewTicket.model_fields) - {"version", "title"})
    return NewTicket(title=letter.title, text=letter.text, markdown=letter.markdown, **fields)


def schema_text() -> str:
    """The schema of all bodies, as it is in the documentation."""
    sent = [(model, "serialization") for model in (NewTicket, NewUpdate, NewAttachment)]
    said = [(model, "validation") for model in (TicketNow, TicketsNow, Missing, Callback)]
    _, schema = models_json_schema(
        [*sent, *said],  # type: ignore[list-item]  # a list of literals is one of texts to mypy
        title="Tickets by webhook, version 1",
        description="Each body is one of $defs: docs/tickets/webhook.md says which.",
    )
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:quarantine:webhook:v1"}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


def _state(status: str, states: Mapping[str, TicketState]) -> TicketState | None:
    word = status.strip().lower()
    if word in states:
        return states[word]
    plain = "-".join(word.replace("_", "-").split())
    if plain in ("open", "new"):
        return TicketState.FILED
    return TicketState(plain) if plain in set(TicketState) else None
