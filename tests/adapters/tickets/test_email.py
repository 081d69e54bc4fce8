"""Tickets by e-mail, against a mail server on loopback."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from pydantic import ValidationError

from quarantine.adapters.tickets.email import connect
from quarantine.adapters.tickets.email.mail import EmailTickets
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.email.wire import send
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.targets import Context
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Attachment, Update
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk

Make = Callable[..., CaseReport]
REF = "Q-gpu-017-a3"


def _here(now: Callable[[], datetime]) -> Context:
    return Context("lab", now, None, "mail", lambda report: Letter(report.title, "", f"{report.reason}\n.\nQUIT\n..\n"))


@pytest.fixture
def desk() -> Iterator[MailDesk]:
    with MailDesk(Mailbox()) as desk:
        yield desk


def _options(desk: MailDesk, **changes: object) -> dict[str, object]:
    recipients = ["rma@acme.example", "dc@acme.example"]
    base = {"host": "127.0.0.1", "port": desk.port, "security": "none", "sender": "gpu@lab.example"}
    return base | {"recipients": recipients} | changes


@pytest.fixture
def tickets(desk: MailDesk, clock: Callable[[], datetime]) -> EmailTickets:
    return connect(_options(desk), _here(clock))


def _mails(desk: MailDesk) -> list[EmailMessage]:
    return [message_from_bytes(raw, EmailMessage, policy=policy.SMTP) for _, _, raw in desk.box.taken]


def test_a_report_is_sent_with_its_key_and_its_chart(tickets: EmailTickets, desk: MailDesk, make_report: Make) -> None:
    ticket = tickets.open(make_report(), [Attachment("chart.png", "image/png", b"\x89PNG\r\n\x1a\n")])
    assert (ticket.ref, ticket.status, ticket.note) == (REF, "sent", "")
    (mail,) = _mails(desk)
    assert mail["Subject"].startswith("[Q-gpu-017-a3] gpu-017: GPU 3")
    assert mail["Message-ID"] == "<gpu-017-a3.report@lab.example>"
    body = mail.get_body()
    assert body is not None
    assert "78 °C" in body.get_content()
    assert "\r\n.\r\nQUIT\r\n..\r\n" in body.get_content().replace("\r\n", "\n").replace("\n", "\r\n")
    (chart,) = mail.iter_attachments()
    assert (chart.get_filename(), chart.get_content()) == ("chart.png", b"\x89PNG\r\n\x1a\n")
    assert desk.box.taken[0][1] == ("rma@acme.example", "dc@acme.example")


def test_an_update_is_in_the_thread(tickets: EmailTickets, desk: MailDesk) -> None:
    tickets.update(REF, Update("reminder-1", "Any news?", close=True))
    (mail,) = _mails(desk)
    assert mail["In-Reply-To"] == mail["References"] == "<gpu-017-a3.report@lab.example>"
    assert mail["Message-ID"] == "<gpu-017-a3.update.reminder-1@lab.example>"
    assert f"This ends the request {REF}." in mail.get_content()


def test_a_title_makes_no_header(tickets: EmailTickets, desk: MailDesk, make_report: Make) -> None:
    tickets.open(make_report(title="hot\r\nBcc: all@evil.example\r\n\r\nbody"))
    (mail,) = _mails(desk)
    assert mail["Bcc"] is None
    assert desk.box.taken[0][1] == ("rma@acme.example", "dc@acme.example")


def test_the_longest_key_is_not_folded(tickets: EmailTickets, desk: MailDesk, make_report: Make) -> None:
    tickets.open(make_report(key="k" * 200))
    assert f"<{'k' * 200}.report@lab.example>".encode() in desk.box.taken[0][2]


def test_nothing_can_be_looked_up(tickets: EmailTickets) -> None:
    assert tickets.answerable is Answerable.BLIND
    assert tickets.find("gpu-017-a3") == ()
    assert tickets.read(REF) is None
    with pytest.raises(TicketsRefused, match="begins with Q-"):
        tickets.read("R-1")


def test_a_recipient_who_is_not_taken_is_said(tickets: EmailTickets, desk: MailDesk, make_report: Make) -> None:
    desk.box.replies["dc@acme.example"] = b"550 no such user"
    assert tickets.open(make_report()).note == "the mail server did not take the recipients dc@acme.example"
    assert desk.box.taken[0][1] == ("rma@acme.example",)


@pytest.mark.parametrize("command", ["EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(
    ("reply", "error"),
    [(b"451 later", TicketsUnavailable), (b"550 never", TicketsRefused), (b"", TicketsUnavailable)],
)
def test_exactly_once_before_the_text(
    tickets: EmailTickets, desk: MailDesk, make_report: Make, command: str, reply: bytes, error: type[Exception]
) -> None:
    desk.box.replies[command] = reply
    with pytest.raises(error) as raised:
        tickets.open(make_report())
    assert type(raised.value) is error
    assert not desk.box.taken


@pytest.mark.parametrize("reply", [b"", b"hello", b"999 what"])
def test_exactly_once_after_the_text(tickets: EmailTickets, desk: MailDesk, make_report: Make, reply: bytes) -> None:
    desk.box.after_text = reply
    with pytest.raises(TicketsUncertain, match="may have been sent"):
        tickets.open(make_report())
    assert len(desk.box.taken) == 1


def test_nobody_there_is_nothing_done(clock: Callable[[], datetime], make_report: Make) -> None:
    with MailDesk(Mailbox()) as gone:
        pass
    with pytest.raises(TicketsUnavailable, match="cannot be used") as raised:
        connect(_options(gone), _here(clock)).open(make_report())
    assert not isinstance(raised.value, TicketsUncertain)


def test_a_server_that_says_nothing_is_left(desk: MailDesk) -> None:
    desk.box.replies["EHLO"] = b"250-" + b"x" * 8  # the reply never ends
    with pytest.raises(TicketsUnavailable):
        send(EmailOptions.model_validate(_options(desk)), b"a: b\r\n\r\n", whole=0.2)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=desk"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True, timeout=30)
    return cert, key


def test_over_starttls_with_a_login(
    desk: MailDesk, clock: Callable[[], datetime], make_report: Make, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    desk.box.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    desk.box.context.load_cert_chain(*certificate)
    desk.box.login = ("gpu", "s3cret")
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    options = _options(desk, security="starttls", username="gpu", password_file=secret, ca_file=certificate[0])
    connect(options, _here(clock)).open(make_report())
    assert len(desk.box.taken) == 1
    with pytest.raises(TicketsUnavailable, match="SSLCertVerificationError"):
        connect(options | {"ca_file": None}, _here(clock)).open(make_report())
    secret.write_text("wr0ng")
    with pytest.raises(TicketsRefused, match="the login") as raised:
        connect(options, _here(clock)).open(make_report())
    assert "AGdwdQ" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert len(desk.box.taken) == 1


def test_nothing_is_sent_in_the_clear(desk: MailDesk, clock: Callable[[], datetime], make_report: Make) -> None:
    with pytest.raises(TicketsRefused, match="offers no STARTTLS"):
        connect(_options(desk, security="starttls"), _here(clock)).open(make_report())
    with pytest.raises(ValidationError, match="use starttls or tls"):
        EmailOptions.model_validate(_options(desk, host="mail.acme.example"))


@pytest.mark.parametrize(
    "changes",
    [{"sender": "a@b\r\nBcc: c@d"}, {"recipients": []}, {"host": "user:pw@mail"}, {"username": "x"}, {"password": "x"}],
)
def test_options_that_are_wrong(desk: MailDesk, changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmailOptions.model_validate(_options(desk, **changes))
