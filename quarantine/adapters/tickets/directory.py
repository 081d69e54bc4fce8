"""Tickets as files in a folder: the embedded default, for a first try and for providers who are told by other means.

One ticket is two files. `<ref>.json` is the ticket; `<ref>.md` is the same for people, and can be sent on as it is;
what is attached, such as a chart, is beside them as `<ref>.<name>`. The provider's side (a person, a script) answers by
setting `status` in the JSON: any word; `closed` ends it, and so do `replaced`, `host-released`, `no-fault-found` and
`refused`, which say how (`record.TicketRecord.state`).

The JSON document (`record.TicketRecord` is its schema; unknown keys are kept):

    version       1
    ref, key      R-<day the case was opened>-<key>; the key is the case id
    status        "open" when filed
    ask           "report": the machine is reported, and its replacement asked for; "replace": another one is asked for,
                  and what is left on this one may be destroyed
    title, reason, cluster, pool, provider, node
    provider_description, contact                                 what the fleet file says: who it is, whom to ask
    machine       provider_id, system_uuid, boot_id, node_uid, place, gpus (UUIDs)
    opened_at, opened_by, filed_at, closed_at, close_reason       times are RFC 3339, UTC
    faults        policy, why, device, category, severity, since, value (with its unit), threshold, query,
                  labels (hardware only)
    history, tried, evidence, swap    what is known of the machine before, what was done about it, where the evidence
                  of it is, and what to know of its exchange; empty where nothing is
    earlier       references of tickets about the same machine from before
    assets        what the provider calls the machine, by name: its serial number, its rack
    comments      at, text, key (of the update that it was added by; the same key is not added twice)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from quarantine.adapters.tickets.files import only_writer, replace, translated
from quarantine.adapters.tickets.keys import KEY, checked
from quarantine.adapters.tickets.letter import page as shipped_page
from quarantine.adapters.tickets.markdown import clean, one_line
from quarantine.adapters.tickets.record import Comment, TicketRecord, record_of
from quarantine.adapters.tickets.targets import Context
from quarantine.core.errors import TicketsRefused
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_REF = re.compile(rf"R-\d{{8}}-({KEY})")


class DirectoryOptions(BaseModel):
    """Where the files go."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    directory: Path


def connect(options: Mapping[str, object], context: Context) -> DirectoryTickets:
    """The target with these options; its folder is made with the first ticket. Raises pydantic's ValidationError."""
    folder = DirectoryOptions.model_validate(options).directory
    return DirectoryTickets(folder, context.now, page=context.page)


class DirectoryTickets:
    """Implements `ports.Tickets`. The reference follows from the report alone, so filing twice gives one ticket.

    The Markdown is written first and the JSON last: the JSON is what counts, and a process killed in between leaves a
    ticket that does not exist yet (or a comment not yet made) and is completed when the call is repeated.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        *,
        patience: float = 5.0,
        page: Callable[[TicketRecord], str] = shipped_page,
    ) -> None:
        """`path` is made with the first ticket. `patience`: seconds to wait for another writer of the folder.

        `page`: a ticket as people read it.
        """
        self._folder = path
        self._now = now
        self._patience = patience
        self._page = page

    answerable = Answerable.IDEMPOTENT
    settles = timedelta(0)

    def find(self, key: str) -> tuple[Ticket, ...]:
        """The ticket of this case, open or closed. Raises TicketsRefused where its file cannot be understood."""
        checked(key)
        record = self._of_key(key)
        return () if record is None else (self._ticket(record),)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it. Where this case has a ticket already, open or closed, that one is returned as it is."""
        checked(report.key)
        with translated(f"file a ticket for case {report.key}", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with only_writer(self._folder, self._patience):
                record = self._of_key(report.key)
                # Before the ticket: what is there once it exists is complete.
                for attachment in attachments:
                    replace(self._folder / _beside(report, attachment), attachment.content)
                if record is None:
                    ref = _ref_of(report)
                    record = record_of(report, ref=ref, filed_at=self._now())
                    self._save(record)
                elif not self._markdown(record.ref).exists():
                    replace(self._markdown(record.ref), self._page(record))
        return self._ticket(record)

    def read(self, ref: str) -> Ticket | None:
        """Its present state, which the provider's side may have changed."""
        _check_ref(ref)
        record = self._load(ref)
        return None if record is None else self._ticket(record)

    def update(self, ref: str, update: Update) -> None:
        """Add a comment, or end it with a reason; one that is closed keeps its reason."""
        text = clean(update.text)

        def add(record: TicketRecord) -> TicketRecord:
            if any(comment.key == update.key for comment in record.comments):
                return record
            comment = Comment(at=self._now(), text=text, key=update.key)
            return record.model_copy(update={"comments": (*record.comments, comment)})

        def end(record: TicketRecord) -> TicketRecord:
            if not record.open:
                return record
            return record.model_copy(update={"status": "closed", "closed_at": self._now(), "close_reason": text})

        self._change(ref, "close a ticket" if update.close else "comment on a ticket", end if update.close else add)

    def _change(self, ref: str, doing: str, change: Callable[[TicketRecord], TicketRecord]) -> None:
        _check_ref(ref)
        if not self._folder.is_dir():
            raise TicketsRefused(
                f"could not {doing}: there is no ticket {ref}, since there is no folder {self._folder}"
            )
        with translated(doing, self._folder), only_writer(self._folder, self._patience):
            record = self._load(ref)
            if record is None:
                raise TicketsRefused(f"could not {doing}: there is no ticket {ref} in {self._folder}")
            self._save(change(record))

    def _save(self, record: TicketRecord) -> None:
        text = json.dumps(record.model_dump(mode="json"), ensure_ascii=False, indent=2) + "\n"
        replace(self._markdown(record.ref), self._page(record))
        replace(self._json(record.ref), text)

    def _of_key(self, key: str) -> TicketRecord | None:
        """The ticket of a case. Its name begins with the day of the case's opening, which the key does not tell."""
        with translated("look for a ticket", self._folder):
            try:
                names = sorted(entry.stem for entry in self._folder.iterdir() if entry.suffix == ".json")
            except FileNotFoundError:
                return None
        for name in names:
            found = _REF.fullmatch(name)
            if found and found[1] == key:
                return self._load(name)
        return None

    def _load(self, ref: str) -> TicketRecord | None:
        path = self._json(ref)
        with translated(f"read ticket {ref}", self._folder):
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            record = TicketRecord.model_validate_json(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the document"
            raise TicketsRefused(
                f"{path} is not a ticket: {place}: {first['msg']}; put it right, or move it away to have it filed again"
            ) from error
        if (record.ref, record.key) != (ref, ref.split("-", 2)[2]):
            raise TicketsRefused(
                f"{path} holds another ticket, {shorten(one_line(record.ref), 80)!r}: give it its own name back"
            )
        return record

    def _ticket(self, record: TicketRecord) -> Ticket:
        return Ticket(
            ref=record.ref,
            key=record.key,
            status=record.status,
            url=self._markdown(record.ref).absolute().as_uri(),
            state=record.state,
            open=record.open,
        )

    def _markdown(self, ref: str) -> Path:
        return self._folder / f"{ref}.md"

    def _json(self, ref: str) -> Path:
        return self._folder / f"{ref}.json"


def _ref_of(report: CaseReport) -> str:
    return f"R-{report.opened_at.astimezone(UTC):%Y%m%d}-{report.key}"


def _beside(report: CaseReport, attachment: Attachment) -> str:
    """`R-….chart.png`: a name of ours, whatever it is called. No ticket has a dot within its name."""
    name = _UNFIT.sub("-", attachment.name).strip(".-")[-80:] or "attachment"
    return f"{_ref_of(report)}.{name}" if not name.endswith((".json", ".md")) else f"{_ref_of(report)}.{name}.txt"


def _check_ref(ref: str) -> None:
    if not _REF.fullmatch(ref):
        raise TicketsRefused(
            f"{shorten(one_line(ref), 80)!r} is no ticket of this folder: it must match {_REF.pattern}"
        )
