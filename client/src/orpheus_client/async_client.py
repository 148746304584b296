"""The client for asyncio. The mirror of `sync_client`: the same names, with `await`, `async with` and `async for`."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from typing_extensions import Self, Unpack

from . import wire
from .async_transport import AsyncCall, AsyncTransport
from .base import BaseClient, BaseStream, ChannelOptions, Headers
from .connection import DEFAULT_URL, Tls
from .errors import OrpheusError
from .exchange import ERROR_GRACE_S, stop_pauses_s
from .server_info import Description, Health
from .speech import Chunk, Speech, SpeechOptions, SpeechRequest, whole_speech
from .timeouts import Timeouts


class AsyncSpeechStream(BaseStream[AsyncCall]):
    """One utterance on its way. Use it in an `async with` block, once; iterate it there, from one task.

    `cancel()` may be called from another task: the loop then ends without another chunk, and `finish_reason` is "cancelled".
    """

    def __init__(
        self,
        transport: AsyncTransport,
        request: SpeechRequest,
        request_id: str | None,
        timeouts: Timeouts,
        retries: int,
        running: set[AsyncSpeechStream],
    ) -> None:
        super().__init__(transport.connection, request, request_id, timeouts, retries)
        self._transport, self._running = transport, running
        self._lock = asyncio.Lock()  # held while a call is ended or replaced
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        exchange = self._start()
        self._entered = exchange, self._transport.open(exchange.message())
        self._running.add(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        """Raises OrpheusError where the utterance is lost, each time it is asked again."""
        while True:
            if self._error is not None:
                raise self._error
            exchange, call = self._now()
            if exchange.finish_reason or self._cancelled:
                raise StopAsyncIteration
            event = await call.next_event(exchange.remaining_s(time.monotonic()))
            if self._cancelled:
                raise StopAsyncIteration
            try:
                if event is None:
                    raise exchange.expired()
                chunk = exchange.feed(event)
            except OrpheusError as error:
                await self._retry_after(error)
                continue
            if chunk is not None:
                return chunk

    async def cancel(self) -> None:
        """End the utterance, if it is not over, and release the call.

        The server is told to stop, and what is under way is drained, for at most `close_s`. Where the waiting task is itself cancelled,
        this goes on by itself, and the client's `close()` waits for it.
        """
        if self._runs():
            self._cancelled = True
            self._now()[1].wake()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with self._lock:
            try:
                await self._end(self._patience_s())
            finally:
                self._running.discard(self)

    async def _retry_after(self, error: OrpheusError) -> None:
        """Try again if that is allowed, else raise."""
        exchange, _ = self._now()
        delay_s = exchange.retry_delay_s(error, time.monotonic())
        if delay_s is None:
            self._error = error
            raise error
        async with self._lock:
            await self._end(ERROR_GRACE_S)
        await asyncio.sleep(delay_s)
        async with self._lock:
            if not self._cancelled:
                exchange.restart(time.monotonic())
                self._entered = exchange, self._transport.open(exchange.message())

    async def _end(self, patience_s: float) -> None:
        """Let the server's side come to its end: by itself within `patience_s`, else by STOP.

        Just cutting the call would leave the ensemble's request in flight on the server, so that is the last resort, after `close_s`.
        """
        exchange, call = self._now()
        deadline_s = time.monotonic() + self._timeouts.close_s
        try:
            if await call.wait(patience_s):
                return
            for pause_s in stop_pauses_s():
                found = await self._stop(exchange.request_id, deadline_s - time.monotonic())
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or await call.wait(left_s if found else min(pause_s, left_s)):
                    return
        finally:
            call.cut()

    async def _stop(self, request_id: str, timeout_s: float) -> bool:
        """-> whether the server found the stream. It may not have heard of it yet."""
        message = wire.stop_message(self._connection.language_model, request_id)
        try:
            return await self._transport.order(message, "FINISH_REASON", max(timeout_s, 0.0)) == "cancelled"
        except OrpheusError:
            return False


class AsyncClient(BaseClient):
    """Speech from one server, for one event loop. All streams share one connection. Make one per process, after any fork."""

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
        self._transport = AsyncTransport(self._connection)
        self._running: set[AsyncSpeechStream] = set()

    def stream(
        self,
        text: str,
        *,
        timeouts: Timeouts | None = None,
        retries: int | None = None,
        request_id: str | None = None,
        **options: Unpack[SpeechOptions],
    ) -> AsyncSpeechStream:
        """Speech as it is made: `async with client.stream("...") as speech: async for chunk in speech: ...`.

        Leaving the block early cancels it.
        request_id: must be unique on the server while it runs, for it names the stream that a cancel ends; made up by default.
        """
        request = SpeechRequest(text, **options)
        retries = self._retries if retries is None else retries
        return AsyncSpeechStream(self._transport, request, request_id, timeouts or self._timeouts, retries, self._running)

    async def synthesize(
        self,
        text: str,
        *,
        timeouts: Timeouts | None = None,
        retries: int | None = None,
        request_id: str | None = None,
        **options: Unpack[SpeechOptions],
    ) -> Speech:
        """The whole utterance at once. Raises OrpheusError where it is not complete."""
        async with self.stream(text, timeouts=timeouts, retries=retries, request_id=request_id, **options) as speech:
            chunks = [chunk async for chunk in speech]
        return whole_speech(chunks, speech.finish_reason, speech.request_id, speech.timings)

    async def describe(self) -> Description:
        """The model's voices, defaults and limits."""
        return Description.parse(await self._transport.order(self._describe_message(), "DESCRIPTION", self._timeouts.first_audio_s))

    async def voices(self) -> tuple[str, ...]:
        return (await self.describe()).voices

    async def health(self) -> Health:
        """Raises ServerUnavailable where nobody answers."""
        calls = self._health_calls()
        answers = await asyncio.gather(*(self._transport.unary(*call, self._timeouts.first_audio_s) for call in calls.values()))
        return wire.read_health(dict(zip(calls, answers, strict=True)))

    async def close(self) -> None:
        """Cancel what runs and close the connection."""
        await asyncio.gather(*(stream.cancel() for stream in list(self._running)))
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
