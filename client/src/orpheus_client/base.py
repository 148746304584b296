"""What the two clients share: everything but the I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from . import wire
from .connection import DEFAULT_URL, Connection, Tls
from .errors import OrpheusError
from .exchange import ERROR_GRACE_S, Exchange
from .speech import SpeechRequest
from .timeouts import Timeouts
from .timings import Timings

CallT = TypeVar("CallT")
Headers = Mapping[str, str]
ChannelOptions = Sequence[tuple[str, Any]]


class BaseStream(Generic[CallT]):
    """State of one utterance's stream. It is entered once, and then always has an exchange and a call."""

    sample_rate_hz = wire.SAMPLE_RATE_HZ

    def __init__(self, connection: Connection, request: SpeechRequest, request_id: str | None, timeouts: Timeouts, retries: int) -> None:
        self._connection, self._request, self._wanted_id = connection, request, request_id
        self._timeouts, self._retries = timeouts, retries
        self._entered: tuple[Exchange, CallT] | None = None
        self._error: OrpheusError | None = None
        self._cancelled = False

    @property
    def request_id(self) -> str:
        """Of the current attempt."""
        return self._now()[0].request_id

    @property
    def finish_reason(self) -> str:
        """ "" while it runs and after an error; "stop", "length" (cut at the token limit), or "cancelled" by us."""
        if self._error is not None:
            return ""
        return "cancelled" if self._cancelled else self._now()[0].finish_reason

    @property
    def timings(self) -> Timings:
        """Of what has been taken from the stream so far."""
        return self._now()[0].timings()

    def _start(self) -> Exchange:
        if self._entered is not None:
            raise RuntimeError("a stream can be entered once")
        return Exchange(self._request, self._connection.model, self._wanted_id, self._timeouts, self._retries, time.monotonic())

    def _now(self) -> tuple[Exchange, CallT]:
        if self._entered is None:
            raise RuntimeError("use the stream in a with block: with client.stream(...) as speech")
        return self._entered

    def _runs(self) -> bool:
        return not self._now()[0].finish_reason and self._error is None

    def _patience_s(self) -> float:
        """How long the server's side may take to end by itself before it is told to stop."""
        if self._now()[0].finish_reason:
            return self._timeouts.close_s
        return 0.0 if self._error is None else ERROR_GRACE_S


class BaseClient:
    """Configuration of a client; see `Connection` and `Timeouts`.

    timeouts, retries: defaults for all calls. retries: how often an utterance is tried again after a retryable error, never once audio has
    come.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeouts: Timeouts | None = None,
        retries: int = 0,
        tls: bool | Tls = False,
        headers: Headers | None = None,
        channel_options: ChannelOptions = (),
    ) -> None:
        self._timeouts, self._retries = timeouts or Timeouts(), retries
        self._connection = Connection(url, self._timeouts, tls, headers or {}, channel_options)

    def _describe_message(self) -> Any:
        return wire.describe_message(self._connection.language_model)

    def _health_calls(self) -> dict[str, tuple[str, Any]]:
        return wire.health_calls(self._connection.model, self._connection.language_model)
