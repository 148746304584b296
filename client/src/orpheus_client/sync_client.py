"""The client for threads.

It runs on gRPC's blocking API, not on a hidden event loop: a `grpc.Channel` may be used by any number of threads, while several event loops
in one process disturb each other in grpc.aio (grpc/grpc issue 25364), and a caller may well have one of their own.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from typing_extensions import Self, Unpack

from . import wire
from .base import BaseClient, BaseStream, ChannelOptions, Headers
from .connection import DEFAULT_URL, Tls
from .errors import OrpheusError
from .exchange import ERROR_GRACE_S, stop_pauses_s
from .server_info import Description, Health
from .speech import Chunk, Speech, SpeechOptions, SpeechRequest, whole_speech
from .sync_transport import SyncCall, SyncTransport
from .timeouts import Timeouts


class SpeechStream(BaseStream[SyncCall]):
    """One utterance on its way. Use it in a `with` block, once; iterate it there, from one thread.

    `cancel()` may be called from any thread: the loop then ends without another chunk, and `finish_reason` is "cancelled".
    """

    def __init__(
        self,
        transport: SyncTransport,
        request: SpeechRequest,
        request_id: str | None,
        timeouts: Timeouts,
        retries: int,
        running: set[SpeechStream],
    ) -> None:
        super().__init__(transport.connection, request, request_id, timeouts, retries)
        self._transport, self._running = transport, running
        self._lock = threading.Lock()  # held while a call is ended or replaced
        self._closed = False

    def __enter__(self) -> Self:
        exchange = self._start()
        self._entered = exchange, self._transport.open(exchange.message())
        self._running.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cancel()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        """Raises OrpheusError where the utterance is lost, each time it is asked again."""
        while True:
            if self._error is not None:
                raise self._error
            exchange, call = self._now()
            if exchange.finish_reason or self._cancelled:
                raise StopIteration
            event = call.next_event(exchange.remaining_s(time.monotonic()))
            if self._cancelled:
                raise StopIteration
            try:
                if event is None:
                    raise exchange.expired()
                chunk = exchange.feed(event)
            except OrpheusError as error:
                self._retry_after(error)
                continue
            if chunk is not None:
                return chunk

    def cancel(self) -> None:
        """End the utterance, if it is not over, and release the call.

        The server is told to stop, and what is under way is drained, for at most `close_s`.
        """
        if self._runs():
            self._cancelled = True
            self._now()[1].wake()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._end(self._patience_s())
            finally:
                self._running.discard(self)

    def _retry_after(self, error: OrpheusError) -> None:
        """Try again if that is allowed, else raise."""
        exchange, _ = self._now()
        delay_s = exchange.retry_delay_s(error, time.monotonic())
        if delay_s is None:
            self._error = error
            raise error
        with self._lock:
            self._end(ERROR_GRACE_S)
        time.sleep(delay_s)
        with self._lock:
            if not self._cancelled:
                exchange.restart(time.monotonic())
                self._entered = exchange, self._transport.open(exchange.message())

    def _end(self, patience_s: float) -> None:
        """Let the server's side come to its end: by itself within `patience_s`, else by STOP.

        Just cutting the call would leave the ensemble's request in flight on the server, so that is the last resort, after `close_s`.
        """
        exchange, call = self._now()
        deadline_s = time.monotonic() + self._timeouts.close_s
        try:
            if call.wait(patience_s):
                return
            for pause_s in stop_pauses_s():
                found = self._stop(exchange.request_id, deadline_s - time.monotonic())
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or call.wait(left_s if found else min(pause_s, left_s)):
                    return
        finally:
            call.cut()

    def _stop(self, request_id: str, timeout_s: float) -> bool:
        """-> whether the server found the stream. It may not have heard of it yet."""
        message = wire.stop_message(self._connection.language_model, request_id)
        try:
            return self._transport.order(message, "FINISH_REASON", max(timeout_s, 0.0)) == "cancelled"
        except OrpheusError:
            return False


class Client(BaseClient):
    """Speech from one server. All streams share one connection; every method may be called from any thread.

    Make one per process, after any fork.
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
        super().__init__(url, timeouts=timeouts, retries=retries, tls=tls, headers=headers, channel_options=channel_options)
        self._transport = SyncTransport(self._connection)
        self._running: set[SpeechStream] = set()

    def stream(
        self,
        text: str,
        *,
        timeouts: Timeouts | None = None,
        retries: int | None = None,
        request_id: str | None = None,
        **options: Unpack[SpeechOptions],
    ) -> SpeechStream:
        """Speech as it is made: `with client.stream("...") as speech: for chunk in speech: ...`.

        Leaving the block early cancels it.
        request_id: must be unique on the server while it runs, for it names the stream that a cancel ends; made up by default.
        """
        request = SpeechRequest(text, **options)
        retries = self._retries if retries is None else retries
        return SpeechStream(self._transport, request, request_id, timeouts or self._timeouts, retries, self._running)

    def synthesize(
        self,
        text: str,
        *,
        timeouts: Timeouts | None = None,
        retries: int | None = None,
        request_id: str | None = None,
        **options: Unpack[SpeechOptions],
    ) -> Speech:
        """The whole utterance at once. Raises OrpheusError where it is not complete."""
        with self.stream(text, timeouts=timeouts, retries=retries, request_id=request_id, **options) as speech:
            chunks = list(speech)
        return whole_speech(chunks, speech.finish_reason, speech.request_id, speech.timings)

    def describe(self) -> Description:
        """The model's voices, defaults and limits."""
        return Description.parse(self._transport.order(self._describe_message(), "DESCRIPTION", self._timeouts.first_audio_s))

    def voices(self) -> tuple[str, ...]:
        return self.describe().voices

    def health(self) -> Health:
        """Raises ServerUnavailable where nobody answers."""
        return wire.read_health(
            {name: self._transport.unary(*call, self._timeouts.first_audio_s) for name, call in self._health_calls().items()}
        )

    def close(self) -> None:
        """Cancel what runs and close the connection."""
        running = list(self._running)
        if running:
            with ThreadPoolExecutor(len(running)) as threads:
                list(threads.map(SpeechStream.cancel, running))
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
