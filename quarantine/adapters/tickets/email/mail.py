"""Tickets as e-mail: for a provider who has nothing but a mailbox."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from email import policy
from email.message import EmailMessage

from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.email.wire import send
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import clean, one_line
from quarantine.core.errors import TicketsRefused
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update

_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,199}")
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")
# Long Message-IDs would be folded into encoded words, which nothing threads by; SMTP allows lines of 998.
_POLICY = policy.SMTP.clone(max_line_length=900)


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
        _checked(key)
        return ()

    def read(self, ref: str) -> Ticket | None:
        """None: a mailbox is not looked into."""
        _key_of(ref)
        return None

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """Send it to all recipients. Those whom the server would not take are in the ticket's note."""
        key = _checked(report.key)
        letter = self._letter(report)
        message = self._message(key, f"{key}.report", letter.title, letter.text)
        for attachment in attachments:
            _attach(message, attachment)
        missed = send(self._options, message.as_bytes())
        note = f"the mail server did not take the recipients {', '.join(missed)}" if missed else ""
        return Ticket(ref=f"Q-{key}", key=key, status="sent", note=note)

    def update(self, ref: str, update: Update) -> None:
        """Send an answer in the ticket's thread."""
        key = _key_of(ref)
        text = f"{update.text}\n\nThis ends the request {ref}." if update.close else update.text
        message = self._message(key, f"{key}.update.{_checked(update.key)}", "", text)
        thread = f"<{key}.report@{self._options.domain}>"
        message["In-Reply-To"] = thread
        message["References"] = thread
        send(self._options, message.as_bytes())

    def _message(self, key: str, ident: str, title: str, text: str) -> EmailMessage:
        message = EmailMessage(policy=_POLICY)
        message["From"] = self._options.sender
        message["To"] = ", ".join(self._options.recipients)
        message["Subject"] = f"[Q-{key}] {one_line(title)[:250]}" if title else f"Re: [Q-{key}]"
        message["Date"] = self._now()
        message["Message-ID"] = f"<{ident}@{self._options.domain}>"
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: out-of-office programs leave it alone
        message.set_content(clean(text), cte="quoted-printable")
        return message


def _attach(message: EmailMessage, attachment: Attachment) -> None:
    known = _MEDIA_TYPE.fullmatch(attachment.media_type)
    main, _, sub = (attachment.media_type if known else "application/octet-stream").partition("/")
    if main in ("text", "message", "multipart"):  # bytes are bytes: no mail program is to read them as its own
        main, sub = "application", "octet-stream"
    message.add_attachment(attachment.content, maintype=main, subtype=sub, filename=one_line(attachment.name))


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise TicketsRefused(f"{key!r} is no key of a ticket: use lower case letters, digits and dashes")
    return key


def _key_of(ref: str) -> str:
    if not ref.startswith("Q-"):
        raise TicketsRefused(f"{ref!r} is no ticket sent by e-mail: such a reference begins with Q-")
    return _checked(ref.removeprefix("Q-"))
