"""One message handed to a mail server, once, within bounds."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
from contextlib import suppress
from threading import Timer

from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.markdown import one_line
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain

_EACH_WAIT = 10.0  # seconds
_WHOLE_CALL = 30.0  # seconds
_LINE_START_DOT = re.compile(rb"(?m)^\.")
_GO_ON = 354


def send(options: EmailOptions, message: bytes, *, whole: float = _WHOLE_CALL) -> tuple[str, ...]:
    """Hand `message` (CRLF lines, ASCII) in. Returns the recipients that the server would not take.

    `whole`: seconds after which the connection is cut. Raises TicketsUnavailable, TicketsUncertain (the text went out,
    and no answer came), TicketsRefused.
    """
    password = _password(options)
    smtp = _client(options)
    timer = Timer(whole, _cut, [smtp])  # a server that sends a byte now and then passes each wait, but not this
    timer.daemon = True
    timer.start()
    try:
        _greet(smtp, options, password)
        missed = _envelope(smtp, options)
        _check(smtp.docmd("DATA"), "the message", expected=_GO_ON)
        _text(smtp, message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise TicketsUnavailable(
            f"the mail server {options.host}:{options.usual_port} cannot be used ({type(error).__name__}): "
            "look whether it is up, and whether its certificate is valid"
        ) from None
    finally:
        timer.cancel()
        smtp.close()
    return missed


def _client(options: EmailOptions) -> smtplib.SMTP:
    try:
        trust = ssl.create_default_context(cafile=options.ca_file)
    except OSError:
        raise TicketsRefused(f"the file of authorities {options.ca_file} cannot be read: look at ca_file") from None
    smtp: smtplib.SMTP
    if options.security == "tls":
        smtp = smtplib.SMTP_SSL(local_hostname=options.domain, timeout=_EACH_WAIT, context=trust)
    else:
        smtp = smtplib.SMTP(local_hostname=options.domain, timeout=_EACH_WAIT)
    smtp._host = options.host  # type: ignore[attr-defined]  # noqa: SLF001  # connect() leaves empty what TLS verifies
    return smtp


def _greet(smtp: smtplib.SMTP, options: EmailOptions, password: str) -> None:
    _check(smtp.connect(options.host, options.usual_port), "the connection")
    _check(smtp.ehlo(), "the greeting")
    if options.security == "starttls":
        try:
            reply = smtp.starttls(context=ssl.create_default_context(cafile=options.ca_file))
        except smtplib.SMTPNotSupportedError:
            raise TicketsRefused(
                f"the mail server {options.host} offers no STARTTLS, and nothing is sent in the clear: "
                "set security to tls, or mend the server"
            ) from None
        _check(reply, "STARTTLS")
    if not options.username:
        return
    try:
        smtp.login(options.username, password)
    except smtplib.SMTPAuthenticationError as error:  # its text is left out: it may repeat what was sent
        _check((error.smtp_code, b"see username and password"), "the login")
    except smtplib.SMTPNotSupportedError:
        raise TicketsRefused(f"the mail server {options.host} offers no login: take out username") from None


def _envelope(smtp: smtplib.SMTP, options: EmailOptions) -> tuple[str, ...]:
    _check(smtp.mail(options.sender), f"the sender {options.sender}")
    replies = {recipient: smtp.rcpt(recipient) for recipient in options.recipients}
    missed = {recipient: reply for recipient, reply in replies.items() if not _positive(reply[0])}
    if len(missed) == len(replies):
        # One that may be taken later is enough to try again; else the most definite answer is told.
        recipient = min(missed, key=lambda one: missed[one][0])
        _check(missed[recipient], f"the recipient {recipient}")
    return tuple(missed)


def _text(smtp: smtplib.SMTP, message: bytes) -> None:
    try:
        smtp.send(_LINE_START_DOT.sub(b"..", message).rstrip(b"\r\n") + b"\r\n.\r\n")
        reply = smtp.getreply()
    except (OSError, smtplib.SMTPException, ValueError):
        reply = (-1, b"")
    if not _reply_code(reply[0]):
        raise TicketsUncertain(
            "the mail server took the message and gave no answer that can be understood: it may have been sent; "
            "look into the mailbox before it is sent again"
        )
    _check(reply, "the message")


def _check(reply: tuple[int, bytes], what: str, *, expected: int = 250) -> None:
    code, text = reply
    if code == expected or (expected != _GO_ON and _positive(code)):
        return
    said = f"the mail server does not take {what} ({code} {one_line(text.decode('ascii', 'replace'))[:200]})"
    if 500 <= code < 600:
        raise TicketsRefused(f"{said}: look at the target's options")
    raise TicketsUnavailable(f"{said}: it is to be tried again later")


def _positive(code: int) -> bool:
    return 200 <= code < 300


def _reply_code(code: int) -> bool:
    return _positive(code) or 400 <= code < 600


def _cut(smtp: smtplib.SMTP) -> None:
    with suppress(OSError):
        if smtp.sock is not None:
            socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)  # not TLS's own, which another thread is reading


def _password(options: EmailOptions) -> str:
    if options.password is not None:
        return options.password.get_secret_value()
    if options.password_file is None:
        return ""
    try:
        return options.password_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise TicketsRefused(
            f"the password file {options.password_file} cannot be read: look at password_file"
        ) from None
