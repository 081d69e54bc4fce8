"""As much of HTTP as a proxy needs to give an answer of its own."""

from __future__ import annotations

import socket

CHUNK = 1 << 16
_LONGEST_HEAD = 1 << 20  # bytes of a request before its body


def asked(client: socket.socket) -> bool:
    """Read a request of HTTP, whole, or the first words of anything else; whether there was one."""
    said = client.recv(CHUNK)
    if not said.partition(b"\r\n")[0].endswith(b"HTTP/1.1"):
        return bool(said)
    while b"\r\n\r\n" not in said and len(said) < _LONGEST_HEAD:
        more = client.recv(CHUNK)
        if not more:
            return False
        said += more
    head, _, body = said.partition(b"\r\n\r\n")
    left = _length(head) - len(body)
    while left > 0:
        more = client.recv(CHUNK)
        if not more:
            return False
        left -= len(more)
    return True


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def http(status: int, body: str, kind: str = "application/json", **headers: str) -> bytes:
    """An answer, after which the connection is closed. In the names of `headers`, `_` stands for `-`."""
    content = body.encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} So\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + content
