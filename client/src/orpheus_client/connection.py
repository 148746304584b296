"""How to reach a server, for both clients."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from .timeouts import Timeouts
from .wire import LANGUAGE_MODEL, SPEECH_MODEL

DEFAULT_URL = "localhost:8001"


@dataclass(frozen=True)
class Tls:
    """PEM files: the authorities to trust (default: the system's), and for mutual TLS the client's key and certificate chain."""

    root_certificates: str | os.PathLike[str] | None = None
    private_key: str | os.PathLike[str] | None = None
    certificate_chain: str | os.PathLike[str] | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        files = (self.root_certificates, self.private_key, self.certificate_chain)
        roots, key, chain = (None if file is None else Path(file).read_bytes() for file in files)
        return grpc.ssl_channel_credentials(roots, key, chain)


@dataclass(frozen=True)
class Connection:
    """url: host:port of Triton's gRPC endpoint. headers: sent with every call, for instance an authorization token.

    tls: True for the system's authorities. channel_options: gRPC's, after ours. No keep-alive pings are sent by default: a server closes
    connections that ping more often than it likes (Triton: every 300 s), and a busy stream needs none.
    """

    url: str
    timeouts: Timeouts
    tls: bool | Tls
    headers: Mapping[str, str]
    channel_options: Sequence[tuple[str, Any]]
    model: str = SPEECH_MODEL
    language_model: str = LANGUAGE_MODEL

    def credentials(self) -> grpc.ChannelCredentials | None:
        if not self.tls:
            return None
        return (self.tls if isinstance(self.tls, Tls) else Tls()).credentials()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """gRPC wants lower-case names."""
        return tuple((name.lower(), value) for name, value in self.headers.items())

    def options(self) -> list[tuple[str, Any]]:
        # gRPC gives one attempt to connect, with its TLS and HTTP/2 handshakes, at least the shortest reconnect backoff (grpc/grpc
        # src/core/client_channel/subchannel.cc), by default 20 s. The longest backoff bounds how long a client that lives on goes on saying
        # "unavailable" after the server has come back.
        connect_ms = max(1, round(1000 * self.timeouts.connect_s))
        return [
            ("grpc.min_reconnect_backoff_ms", connect_ms),
            ("grpc.initial_reconnect_backoff_ms", min(connect_ms, 500)),
            ("grpc.max_reconnect_backoff_ms", max(connect_ms, 2000)),
            *self.channel_options,
        ]


class ProcessGuard:
    """gRPC channels do not survive a fork: the child's calls would hang or disturb the parent's connection. This makes it an error."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("this client was made in another process; after a fork make a new one")
