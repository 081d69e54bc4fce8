"""Tickets as e-mail: for a provider who has nothing but a mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from quarantine.adapters.tickets.email.message import Mail
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.email.wire import MailTooLarge, check, send
from quarantine.adapters.tickets.keys import checked, file_name
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import one_line
from quarantine.core.errors import TicketsRefused
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update


class EmailTickets:
    """Implements `ports.Tickets`. Message-IDs follow from the keys, so a second copy is known for one to mail programs.

    Nothing can be read back: `find` finds nothing and `read` knows nothing; people say how a ticket ends.
    """

    answerable = Answerable.BLIND
    settles = timedelta(0)

    def __init__(
        self, options: EmailOptions, now: Callable[[], datetime], letter: Callable[[CaseReport], Letter]
    ) -> None:
        self._options = options
        self._now = now
        self._letter = letter

    def find(self, key: str) -> tuple[Ticket, ...]:
        """Nothing: a mailbox is not looked into."""
        checked(key)
        return ()

    def check(self) -> None:
        """Whether the server lets us in, and takes the sender and every recipient. Nothing is sent.

        Raises TicketsUnavailable and TicketsRefused, as sending would.
        """
        if missed := check(self._options):
            raise TicketsRefused(
                f"the mail server does not take the recipients {', '.join(missed)}: look at the target's options"
            )

    def read(self, ref: str) -> Ticket | None:
        """None: a mailbox is not looked into."""
        _key_of(ref)
        return None

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """Send it to all recipients. Those whom the server would not take are in the ticket's note.

        Where it is too large for the server, it is sent once more without the attachments: that one was surely not
        taken.
        """
        key = checked(report.key)
        letter = self._letter(report)
        mail = self._mail(f"{key}.report", f"[Q-{key}]", letter.title, letter.text)
        notes = []
        try:
            missed = send(self._options, mail.content(attachments))
        except MailTooLarge:
            if not attachments:
                raise
            missed = send(self._options, mail.content())
            names = ", ".join(file_name(attachment.name) for attachment in attachments)
            notes.append(f"{names} is not attached: the mail server takes no mail of that size")
        if missed:
            notes.append(f"the mail server did not take the recipients {', '.join(missed)}")
        return Ticket(ref=f"Q-{key}", key=key, status="sent", note="; ".join(notes))

    def update(self, ref: str, update: Update) -> None:
        """Send an answer in the ticket's thread."""
        key = _key_of(ref)
        text = f"{update.text}\n\nThis ends the request {ref}." if update.close else update.text
        mail = self._mail(f"{key}.update.{checked(update.key)}", f"Re: [Q-{key}]", "", text, thread=f"{key}.report")
        send(self._options, mail.content())

    def _mail(self, ident: str, tag: str, title: str, text: str, thread: str = "") -> Mail:
        options = self._options
        return Mail(
            sender=options.sender,
            recipients=options.recipients,
            tag=tag,
            title=title,
            text=text,
            at=self._now(),
            ident=f"<{ident}@{options.domain}>",
            thread=f"<{thread}@{options.domain}>" if thread else "",
        )


def _key_of(ref: str) -> str:
    if not ref.startswith("Q-"):
        raise TicketsRefused(
            f"{shorten(one_line(ref), 80)!r} is no ticket sent by e-mail: such a reference begins with Q-"
        )
    return checked(ref.removeprefix("Q-"))
