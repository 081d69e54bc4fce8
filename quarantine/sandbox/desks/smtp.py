"""A mail server on loopback that keeps what it is given: RFC 5321's order of commands, STARTTLS, AUTH PLAIN, SIZE."""

from __future__ import annotations

import base64
import re
import socketserver
import ssl
import threading
from dataclasses import dataclass, field
from typing import Self

_PATH = re.compile(rb"(?i)(?:FROM|TO):<([^<>\s]+@[^<>\s]+)>(?: .*)?")
_SIZE = re.compile(rb"(?i) SIZE=(\d{1,12})")
_LONGEST_LINE = 1000  # RFC 5321, 4.5.3.1.6, with its CRLF


@dataclass(slots=True)
class Mailbox:
    """What the server took, and what it is to do wrong."""

    taken: list[tuple[str, tuple[str, ...], bytes]] = field(default_factory=list)  # sender, recipients, message
    replies: dict[str, bytes] = field(default_factory=dict)  # by command, or by recipient: said instead; b"" cuts
    after_text: bytes = b"250 queued"  # b"" cuts the connection with the message taken
    login: tuple[str, str] | None = None  # user and password; None: anybody may
    context: ssl.SSLContext | None = None  # offers STARTTLS, and takes nothing without it
    implicit: bool = False  # TLS from the first byte, by `context`
    injected: bytes = b""  # what somebody in between says in the clear, in one piece with the answer to STARTTLS
    largest: int = 10_000_000  # bytes of a message
    tells_largest: bool = True  # before the text is sent
    commands: list[str] = field(default_factory=list)  # the verbs, in order


class MailDesk:
    """The server; a context manager. `port` is free and on 127.0.0.1."""

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self._server = _Server(box)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = False  # sessions are waited for: none outlives the desk

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        super().__init__(("127.0.0.1", 0), _Session)


class _Session(socketserver.StreamRequestHandler):
    server: _Server
    timeout = 20

    def setup(self) -> None:
        super().setup()
        self._secure = self._known = self._greeted = False
        self._sender = ""
        self._recipients: list[str] = []

    def finish(self) -> None:
        super().finish()
        self.request.close()  # the one in TLS, which the server does not know of

    def handle(self) -> None:
        box = self.server.box
        try:
            if box.implicit and box.context:
                self._secured(box.context)
            self._say(b"220 desk ESMTP")
            while line := self.rfile.readline(_LONGEST_LINE + 1):
                verb, _, rest = line.rstrip(b"\r\n").partition(b" ")
                if not line.endswith(b"\r\n"):
                    self._say(b"500 a line ends with CRLF, within 1000 bytes")
                elif not self._command(verb.upper().decode("ascii", "replace"), rest):
                    return
        except OSError:  # the other side has gone, or TLS failed
            return

    def _command(self, verb: str, rest: bytes) -> bool:
        """Answer one command; whether the session goes on."""
        box = self.server.box
        box.commands.append(verb)
        if verb in box.replies:
            return self._say(box.replies[verb])
        if verb == "EHLO":
            self._greeted = True
            offers = [b"STARTTLS"] if box.context and not self._secure else []
            offers += [b"AUTH PLAIN"] if box.login and (self._secure or not box.context) else []
            offers += [b"SIZE %d" % box.largest] if box.tells_largest else []
            return self._say(b"".join(b"250-%s\r\n" % offer for offer in (b"desk", *offers)) + b"250 HELP")
        if verb == "QUIT":
            self._say(b"221 bye")
            return False
        if not self._greeted:
            return self._say(b"503 EHLO first")
        return self._admitted(verb, rest)

    def _admitted(self, verb: str, rest: bytes) -> bool:
        """TLS and the login come before anything else."""
        box = self.server.box
        if verb == "STARTTLS" and box.context and not self._secure:
            return self._begin_tls(box.context)
        if box.context and not self._secure:
            return self._say(b"530 STARTTLS first")
        if verb == "AUTH" and box.login:
            return self._say(self._authenticate(rest, box.login))
        if box.login and not self._known:
            return self._say(b"530 authentication required")
        return self._transaction(verb, rest)

    def _transaction(self, verb: str, rest: bytes) -> bool:
        box = self.server.box
        path = _PATH.fullmatch(rest)
        size = _SIZE.search(rest)
        if verb == "MAIL" and size and not (box.tells_largest and int(size[1]) <= box.largest):
            return self._say(b"552 5.3.4 too large")
        if verb == "MAIL" and path and not self._sender:
            self._sender = path[1].decode("ascii")
            return self._say(b"250 ok")
        if verb == "RCPT" and path and self._sender:
            recipient = path[1].decode("ascii")
            if recipient in box.replies:
                return self._say(box.replies[recipient])
            self._recipients.append(recipient)
            return self._say(b"250 ok")
        if verb == "DATA" and self._recipients:
            self._say(b"354 go on")
            return self._take()
        return self._reset() if verb == "RSET" else self._say(b"503 not now, or not so")

    def _reset(self) -> bool:
        self._sender, self._recipients = "", []
        return self._say(b"250 ok")

    def _take(self) -> bool:
        lines: list[bytes] = []
        while (line := self.rfile.readline(_LONGEST_LINE + 1)) != b".\r\n":
            if not line.endswith(b"\r\n") or not line.isascii():
                return self._say(b"554 a line of the text is too long, not ASCII, or has no CRLF")
            lines.append(line.removeprefix(b"."))
        if sum(len(line) for line in lines) > self.server.box.largest:
            return self._say(b"552 5.3.4 too large")
        self.server.box.taken.append((self._sender, tuple(self._recipients), b"".join(lines)))
        self._sender, self._recipients = "", []
        return self._say(self.server.box.after_text)

    def _authenticate(self, rest: bytes, login: tuple[str, str]) -> bytes:
        mechanism, _, token = rest.partition(b" ")
        said = base64.b64decode(token).split(b"\0")[1:]
        self._known = mechanism.upper() == b"PLAIN" and said == [part.encode() for part in login]
        return b"235 welcome" if self._known else b"535 not " + token

    def _begin_tls(self, context: ssl.SSLContext) -> bool:
        self._say(b"220 go on" + (b"\r\n" + self.server.box.injected if self.server.box.injected else b""))
        self._secured(context)
        return True

    def _secured(self, context: ssl.SSLContext) -> None:
        self.rfile.close()
        self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()
        self._secure, self._greeted = True, False

    def _say(self, reply: bytes) -> bool:
        """Send it; an empty one ends the session instead."""
        if reply:
            self.wfile.write(reply + b"\r\n")
        return bool(reply)
