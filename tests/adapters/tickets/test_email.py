"""Tickets by e-mail, against a mail server on loopback."""

from __future__ import annotations

import smtplib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from quarantine.adapters.tickets.email import connect, wire
from quarantine.adapters.tickets.email.mail import EmailTickets
from quarantine.adapters.tickets.email.message import Mail
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.email.wire import send
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import clean, one_line
from quarantine.adapters.tickets.targets import Context
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Attachment, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk
from quarantine.testing.ticket_contract import TicketContract
from tests.adapters.tickets.conftest import OPENED

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


class TestContract(TicketContract):
    """The port."""

    @pytest.fixture
    def desk(self) -> Iterator[Tickets]:
        with MailDesk(Mailbox()) as desk:
            yield connect(_options(desk), _here(lambda: OPENED))


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


@pytest.mark.parametrize(
    "title",
    [
        "=?utf-8?q?a=0D=0ABcc:_all=40evil.example?= z",  # CVE-2024-6923: the library decodes it, and writes a header
        "=?us-ascii?b?DQpCY2M6IGE=?=",
        "ü =?utf-8?q?=0ABcc:_x?=",
        "\x85Bcc: x\u2028Bcc: y\x0bBcc: z",
    ],
)
def test_no_encoded_word_makes_a_header(tickets: EmailTickets, desk: MailDesk, make_report: Make, title: str) -> None:
    tickets.open(make_report(title=title))
    head = desk.box.taken[0][2].partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith(b" ")]
    assert names == [
        *(b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted"),
        *(b"Content-Type", b"Content-Transfer-Encoding", b"MIME-Version"),
    ]
    assert _mails(desk)[0]["Subject"] == f"[Q-gpu-017-a3] {one_line(title)}"


@settings(max_examples=25, deadline=None)
@given(
    title=st.text(max_size=300), text=st.text(max_size=300), name=st.text(max_size=120), key=st.sampled_from([1, 200])
)
def test_whatever_is_said_arrives_as_it_was(title: str, text: str, name: str, key: int) -> None:
    recipients = tuple(f"{'r' * 60}{number}@{'d' * 60}.{'e' * 60}.example" for number in range(20))
    mail = Mail(
        "gpu@lab.example", recipients, f"[Q-{'k' * key}]", title, text, OPENED, f"<{'k' * 200}@lab.example>", "<t@x>"
    )
    content = mail.content([Attachment(name, "image/png", b"\r\n.\r\n" * 99)])
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert not any(b"\r" in line or b"\n" in line for line in lines)
    # RFC 5322: 998 at most. RFC 2045 and 2047: 76 where anything is encoded.
    assert all(
        len(line) <= (998 if line.startswith((b"Subject: [Q-k", b"To:", b" r", b"Message-ID:")) else 78)
        for line in lines
    )
    assert all(len(line) <= 76 for line in lines if b"=?" in line)
    read = message_from_bytes(content, EmailMessage, policy=policy.SMTP)
    assert not read.defects
    expected = one_line(title)[:250].strip()
    assert read["Subject"] == f"[Q-{'k' * key}] {expected}".strip()
    assert [address.addr_spec for address in read["To"].addresses] == list(recipients)
    assert (read["Message-ID"], read["References"]) == (f"<{'k' * 200}@lab.example>", "<t@x>")
    body = read.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n").strip("\r\n") == clean(text).strip("\n")
    (chart,) = read.iter_attachments()
    assert chart.get_content() == b"\r\n.\r\n" * 99
    assert chart.get_filename()


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


def test_it_can_be_tried_and_nothing_is_sent(tickets: EmailTickets, desk: MailDesk) -> None:
    tickets.check()
    assert desk.box.commands == ["EHLO", "MAIL", "RCPT", "RCPT", "RSET", "QUIT"]
    desk.box.replies["dc@acme.example"] = b"550 no such user"
    with pytest.raises(TicketsRefused, match=r"does not take the recipients dc@acme\.example: look"):
        tickets.check()
    desk.box.replies = {"MAIL": b"553 not yours"}
    with pytest.raises(TicketsRefused, match=r"does not take the sender gpu@lab.example \(553 not yours\)"):
        tickets.check()
    desk.box.replies = {"EHLO": b"421 busy"}
    with pytest.raises(TicketsUnavailable):
        tickets.check()
    assert not desk.box.taken


def test_it_says_goodbye(tickets: EmailTickets, desk: MailDesk, make_report: Make) -> None:
    tickets.open(make_report())
    assert desk.box.commands == ["EHLO", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]


@pytest.mark.parametrize("reply", [b"", b"421 I hang up"])
def test_a_goodbye_that_fails_is_no_failure(
    tickets: EmailTickets, desk: MailDesk, make_report: Make, reply: bytes
) -> None:
    desk.box.replies["QUIT"] = reply
    assert tickets.open(make_report()).status == "sent"


@pytest.mark.parametrize("told", [True, False])
def test_a_chart_that_is_too_large_costs_no_ticket(
    tickets: EmailTickets, desk: MailDesk, make_report: Make, told: bool
) -> None:
    desk.box.largest, desk.box.tells_largest = 5_000, told
    ticket = tickets.open(make_report(), [Attachment("chart.png", "image/png", b"x" * 9_000)])
    assert ticket.note == "chart.png is not attached: the mail server takes no mail of that size"
    assert len(desk.box.taken) == 1
    assert desk.box.commands.count("DATA") == (1 if told else 2)
    with pytest.raises(TicketsRefused, match="552"):
        tickets.update(REF, Update("u-1", "x" * 9_000))


def test_cut_off_within_the_text_it_was_not_sent(
    tickets: EmailTickets, desk: MailDesk, make_report: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = smtplib.SMTP.send

    def cut(self: smtplib.SMTP, said: bytes | str) -> None:
        if isinstance(said, bytes) and len(said) > 100:
            assert self.sock is not None
            self.sock.shutdown(socket.SHUT_WR)
        whole(self, said)

    monkeypatch.setattr(smtplib.SMTP, "send", cut)
    with pytest.raises(TicketsUnavailable) as raised:
        tickets.open(make_report())
    assert not isinstance(raised.value, TicketsUncertain)
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


def test_a_connection_that_took_all_the_time_is_not_used(desk: MailDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with many addresses that do not answer: each has its wait, and there is nothing to cut meanwhile."""
    late = threading.Event()
    connect_to, cut = smtplib.SMTP.connect, wire._cut

    def slow(self: smtplib.SMTP, host: str, port: int) -> tuple[int, bytes]:
        assert late.wait(10)
        return connect_to(self, host, port)

    def noted(smtp: smtplib.SMTP, passed: threading.Event) -> None:
        cut(smtp, passed)
        late.set()

    monkeypatch.setattr(smtplib.SMTP, "connect", slow)
    monkeypatch.setattr(wire, "_cut", noted)
    with pytest.raises(TicketsUnavailable, match="TimeoutError"):
        send(EmailOptions.model_validate(_options(desk)), b"a: b\r\n\r\n", whole=0.01)
    assert not desk.box.commands


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


def _with_tls(desk: MailDesk, certificate: tuple[Path, Path]) -> dict[str, object]:
    desk.box.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    desk.box.context.load_cert_chain(*certificate)
    return _options(desk, security="starttls", ca_file=certificate[0])


def test_the_server_is_greeted_again_over_tls(
    desk: MailDesk, clock: Callable[[], datetime], make_report: Make, certificate: tuple[Path, Path]
) -> None:
    """RFC 3207: what was offered in the clear counts no more. Without a login nothing else would greet it."""
    connect(_with_tls(desk, certificate), _here(clock)).open(make_report())
    assert desk.box.commands[:4] == ["EHLO", "STARTTLS", "EHLO", "MAIL"]


def test_over_tls_from_the_first_byte(
    desk: MailDesk, clock: Callable[[], datetime], make_report: Make, certificate: tuple[Path, Path]
) -> None:
    options = _with_tls(desk, certificate) | {"security": "tls"}
    desk.box.implicit = True
    connect(options, _here(clock)).open(make_report())
    assert desk.box.commands[:2] == ["EHLO", "MAIL"]
    for wrong in ({"ca_file": None}, {"host": "localhost"}):  # nobody's certificate, and one of another name
        with pytest.raises(TicketsUnavailable, match="SSLCertVerificationError"):
            connect(options | wrong, _here(clock)).open(make_report())
    assert len(desk.box.taken) == 1


def test_what_is_said_in_the_clear_is_not_taken_for_an_answer_over_tls(
    desk: MailDesk, clock: Callable[[], datetime], make_report: Make, certificate: tuple[Path, Path]
) -> None:
    """CVE-2011-0411's client side: replies that somebody put behind the answer to STARTTLS."""
    options = _with_tls(desk, certificate)
    desk.box.injected = b"250-evil\r\n250 AUTH PLAIN\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n250 queued"
    connect(options, _here(clock)).open(make_report())
    assert len(desk.box.taken) == 1
    desk.box.replies["MAIL"] = b"550 never"
    with pytest.raises(TicketsRefused, match="the sender"):
        connect(options, _here(clock)).open(make_report())


@pytest.mark.parametrize("reply", [b"250 ok", b"502 no", b"454 not now", b"354 what"])
def test_tls_that_does_not_begin_ends_it(
    desk: MailDesk,
    clock: Callable[[], datetime],
    make_report: Make,
    certificate: tuple[Path, Path],
    reply: bytes,
) -> None:
    options = _with_tls(desk, certificate) | {"username": "gpu", "password": "s3cret"}
    desk.box.replies["STARTTLS"] = reply
    with pytest.raises(TicketsRefused if reply[:1] == b"5" else TicketsUnavailable, match="STARTTLS"):
        connect(options, _here(clock)).open(make_report())
    assert desk.box.commands == ["EHLO", "STARTTLS"], "neither a login nor a mail in the clear"


def test_a_password_that_cannot_be_read_is_said_before_anything_is_sent(
    desk: MailDesk, clock: Callable[[], datetime], make_report: Make, tmp_path: Path
) -> None:
    options = _options(desk, username="gpu", password_file=tmp_path / "none")
    with pytest.raises(TicketsRefused, match="password of gpu"):
        connect(options, _here(clock)).open(make_report())
    assert not desk.box.commands


def test_nothing_is_sent_in_the_clear(desk: MailDesk, clock: Callable[[], datetime], make_report: Make) -> None:
    with pytest.raises(TicketsRefused, match="offers no STARTTLS"):
        connect(_options(desk, security="starttls"), _here(clock)).open(make_report())
    with pytest.raises(ValidationError, match="use starttls or tls"):
        EmailOptions.model_validate(_options(desk, host="mail.acme.example"))


@pytest.mark.parametrize(
    "changes",
    [
        {"sender": "a@b\r\nBcc: c@d"},
        {"recipients": []},
        {"host": "user:pw@mail"},
        {"username": "x"},
        {"password": "x"},
        {"username": "ü", "password": "x"},
    ],
)
def test_options_that_are_wrong(desk: MailDesk, changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmailOptions.model_validate(_options(desk, **changes))
