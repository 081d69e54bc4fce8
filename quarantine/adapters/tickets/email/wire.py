"""One message handed to a mail server, once, within bounds."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Timer

from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.web import secret_of
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain

_EACH_WAIT = 10.0  # seconds
_WHOLE_CALL = 30.0  # seconds
_FAREWELL = 2.0  # seconds, when all is done
_LINE_START_DOT = re.compile(rb"(?m)^\.")
_GO_ON = 354
_TOO_LARGE = 552


class MailTooLarge(TicketsRefused):
    """The server takes no message of this size."""


def send(options: EmailOptions, message: bytes, *, whole: float = _WHOLE_CALL) -> tuple[str, ...]:
    """Hand `message` (CRLF lines, ASCII) in. Returns the recipients that the server would not take.

    `whole`: seconds after which the connection is cut. Raises TicketsUnavailable, TicketsUncertain (the text went out,
    and no answer came), TicketsRefused, and of these MailTooLarge.
    """

    def hand_in(smtp: smtplib.SMTP) -> tuple[str, ...]:
        missed = _envelope(smtp, options, len(message))
        _check(smtp.docmd("DATA"), "the message", expected=_GO_ON)
        _text(smtp, message)
        return missed

    return _in_session(options, whole, hand_in)


def check(options: EmailOptions, *, whole: float = _WHOLE_CALL) -> tuple[str, ...]:
    """Whether the server would take a message: all but the message itself. As `send`; nothing is sent."""

    def ask(smtp: smtplib.SMTP) -> tuple[str, ...]:
        missed = _envelope(smtp, options, 0)
        _check(smtp.rset(), "that nothing is sent")
        return missed

    return _in_session(options, whole, ask)


def _in_session(options: EmailOptions, whole: float, do: Callable[[smtplib.SMTP], tuple[str, ...]]) -> tuple[str, ...]:
    """What it gives, once the server has let us in."""
    password = _password(options)
    trust = _trust(options)
    smtp = _client(options, trust)
    late = Event()
    timer = Timer(whole, _cut, [smtp, late])  # a server that sends a byte now and then passes each wait, but not this
    timer.daemon = True
    timer.start()
    try:
        _check(smtp.connect(options.host, options.usual_port), "the connection")
        if late.is_set():  # a name with many addresses: there was no connection yet that could be cut
            raise TimeoutError
        _greet(smtp, options, trust, password)
        missed = do(smtp)
        _leave(smtp)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise TicketsUnavailable(
            f"the mail server {options.host}:{options.usual_port} cannot be used ({type(error).__name__}): "
            "look whether it is up, and whether its certificate is valid"
        ) from None
    finally:
        timer.cancel()
        smtp.close()
    return missed


def _trust(options: EmailOptions) -> ssl.SSLContext | None:
    """What the server's certificate is verified with; None: no certificate is asked for."""
    if options.security == "none":
        return None
    try:
        return ssl.create_default_context(cafile=options.ca_file)
    except OSError:
        raise TicketsRefused(f"the file of authorities {options.ca_file} cannot be read: look at ca_file") from None


def _client(options: EmailOptions, trust: ssl.SSLContext | None) -> smtplib.SMTP:
    smtp: smtplib.SMTP
    if options.security == "tls":
        smtp = smtplib.SMTP_SSL(local_hostname=options.domain, timeout=_EACH_WAIT, context=trust)
    else:
        smtp = smtplib.SMTP(local_hostname=options.domain, timeout=_EACH_WAIT)
    smtp._host = options.host  # type: ignore[attr-defined]  # noqa: SLF001  # connect() leaves empty what TLS verifies
    return smtp


def _greet(smtp: smtplib.SMTP, options: EmailOptions, trust: ssl.SSLContext | None, password: str) -> None:
    _check(smtp.ehlo(), "the greeting")
    if options.security == "starttls":
        try:
            smtp.starttls(context=trust)
        except smtplib.SMTPResponseException as error:  # any answer but 220: it has not begun
            said = error.smtp_error if isinstance(error.smtp_error, bytes) else error.smtp_error.encode()
            _check((max(error.smtp_code, 400), said), "STARTTLS")
        except smtplib.SMTPNotSupportedError:
            raise TicketsRefused(
                f"the mail server {options.host} offers no STARTTLS, and nothing is sent in the clear: "
                "set security to tls, or mend the server"
            ) from None
        # What was said in the clear is forgotten (RFC 3207, 4.2), the server's offers too.
        _check(smtp.ehlo(), "the greeting")
    if not options.username:
        return
    try:
        smtp.login(options.username, password)
    except smtplib.SMTPAuthenticationError as error:  # its text is left out: it may repeat what was sent
        _check((error.smtp_code, b"see username and password"), "the login")
    except smtplib.SMTPNotSupportedError:
        raise TicketsRefused(f"the mail server {options.host} offers no login: take out username") from None


def _envelope(smtp: smtplib.SMTP, options: EmailOptions, size: int) -> tuple[str, ...]:
    # RFC 1870: too large is said before it is sent. 0: there is nothing to send.
    declared = [f"SIZE={size}"] if size and smtp.has_extn("size") else []
    _check(smtp.mail(options.sender, declared), f"the sender {options.sender}")
    replies = {recipient: smtp.rcpt(recipient) for recipient in options.recipients}
    missed = {recipient: reply for recipient, reply in replies.items() if not _positive(reply[0])}
    if len(missed) == len(replies):
        # One that may be taken later is enough to try again; else the most definite answer is told.
        recipient = min(missed, key=lambda one: missed[one][0])
        _check(missed[recipient], f"the recipient {recipient}")
    return tuple(missed)


def _text(smtp: smtplib.SMTP, message: bytes) -> None:
    smtp.send(_LINE_START_DOT.sub(b"..", message).rstrip(b"\r\n") + b"\r\n")
    try:
        smtp.send(b".\r\n")  # apart: what was cut off before this is not a message yet, and surely not taken
        reply = smtp.getreply()
    except (OSError, smtplib.SMTPException, ValueError):
        reply = (-1, b"")
    if not _reply_code(reply[0]):
        raise TicketsUncertain(
            "the mail server took the message and gave no answer that can be understood: it may have been sent; "
            "look into the mailbox before it is sent again"
        )
    _check(reply, "the message")


def _leave(smtp: smtplib.SMTP) -> None:
    """RFC 5321, 4.1.1.10: nobody hangs up without QUIT. What comes of it is of no interest any more."""
    with suppress(OSError, smtplib.SMTPException, ValueError):
        if smtp.sock is not None:
            smtp.sock.settimeout(_FAREWELL)
        smtp.docmd("QUIT")


def _check(reply: tuple[int, bytes], what: str, *, expected: int = 250) -> None:
    code, text = reply
    if code == expected or (expected != _GO_ON and _positive(code)):
        return
    said = f"the mail server does not take {what} ({code} {one_line(text.decode('ascii', 'replace'))[:200]})"
    if 500 <= code < 600:
        kind = MailTooLarge if code == _TOO_LARGE else TicketsRefused
        raise kind(f"{said}: look at the target's options")
    raise TicketsUnavailable(f"{said}: it is to be tried again later")


def _positive(code: int) -> bool:
    return 200 <= code < 300


def _reply_code(code: int) -> bool:
    return _positive(code) or 400 <= code < 600


def _cut(smtp: smtplib.SMTP, late: Event) -> None:
    late.set()
    with suppress(OSError):
        if smtp.sock is not None:
            socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)  # not TLS's own, which another thread is reading


def _password(options: EmailOptions) -> str:
    if not options.username:
        return ""
    return secret_of(options.password, options.password_file, f"password of {options.username} at the mail server")()
