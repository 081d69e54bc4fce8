"""The bytes of a mail: ASCII, in lines that every server takes (RFC 5322, 2045, 2047), and with no header but ours.

The headers are written here and not by `email.message`: that one decodes encoded words in what it is given, so that a
title with `=?utf-8?q?=0D=0ABcc:…?=` in it would make a header (CVE-2024-6923), and it folds long Message-IDs into
encoded words, by which nothing threads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.header import Header
from email.message import EmailMessage
from email.utils import format_datetime

from quarantine.adapters.tickets.keys import file_name
from quarantine.adapters.tickets.markdown import clean, one_line
from quarantine.core.tickets import Attachment

_LINE = 76  # characters: of Base64, quoted-printable, and lines with encoded words
_TITLE = 250
_POLICY = policy.SMTP.clone(max_line_length=_LINE)
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")


@dataclass(frozen=True, slots=True)
class Mail:
    """What is in a mail. Addresses and identifiers are checked before; title and text come from outside."""

    sender: str
    recipients: tuple[str, ...]
    tag: str  # begins the subject
    title: str
    text: str
    at: datetime  # aware
    ident: str  # <…>
    thread: str = ""  # the identifier of the mail that this one answers; empty: none

    def content(self, attachments: Sequence[Attachment] = ()) -> bytes:
        """The whole message, in lines that end with CRLF."""
        headers = [
            ("From", self.sender),
            ("To", ",\r\n ".join(self.recipients)),
            ("Subject", _subject(self.tag, one_line(self.title)[:_TITLE])),
            ("Date", format_datetime(self.at)),
            ("Message-ID", self.ident),
            ("Auto-Submitted", "auto-generated"),  # RFC 3834: out-of-office programs leave it alone
        ]
        if self.thread:
            headers += [("In-Reply-To", self.thread), ("References", self.thread)]
        body = EmailMessage(policy=_POLICY)
        body.set_content(clean(self.text), cte="quoted-printable")
        for attachment in attachments:
            _attach(body, attachment)
        return "".join(f"{name}: {value}\r\n" for name, value in headers).encode("ascii") + body.as_bytes()


def _subject(tag: str, title: str) -> str:
    """Folded after the tag. What is not plain ASCII, and what looks like an encoded word, is encoded (RFC 2047)."""
    if not title:
        return tag
    charset = "us-ascii" if title.isascii() and "=?" not in title else "utf-8"
    header = Header(title, charset, maxlinelen=_LINE, header_name=f"Subject: {tag}")
    folded = header.encode(splitchars=" ", linesep="\r\n")
    return f"{tag}{folded}" if folded.startswith("\r\n ") else f"{tag} {folded}"


def _attach(message: EmailMessage, attachment: Attachment) -> None:
    known = _MEDIA_TYPE.fullmatch(attachment.media_type)
    main, _, sub = (attachment.media_type if known else "application/octet-stream").partition("/")
    if main in ("text", "message", "multipart"):  # bytes are bytes: no mail program is to read them as its own
        main, sub = "application", "octet-stream"
    name = file_name(attachment.name)
    message.add_attachment(attachment.content, maintype=main, subtype=sub, filename=name)
