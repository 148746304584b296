"""Free TCP ports."""

from __future__ import annotations

import socket


def free_ports(n: int, host: str = "127.0.0.1") -> list[int]:
    """`n` different ports of `host` (a name or an IP address) that nobody listens on just now. Another process may take one before it is
    used: then start again. Raises OSError where `host` is not this machine."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    sockets = [socket.socket(family, socket.SOCK_STREAM) for _ in range(n)]
    try:
        for one in sockets:
            one.bind(address)
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
