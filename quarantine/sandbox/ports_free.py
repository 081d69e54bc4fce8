"""A TCP port of the loopback that nobody listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that was free a moment ago. Another process may take it first: whoever binds it must be ready to retry."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
