"""asyncio I/O: one gRPC channel, and calls that a task of their own reads. The mirror of `sync_transport`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import grpc
import grpc.aio

from . import wire
from .connection import Connection, ProcessGuard
from .exchange import Arrived, Ended, Event, Failed
from .sync_transport import failure, status_error


class AsyncCall:
    """One streamed call. Its task notes when each response comes, and keeps on reading when nobody asks any more.

    The call always ends or is cut off: grpc.aio from 1.83 on does not collect a call that is just dropped (grpc issue 43462).
    """

    def __init__(self, rpc: Any) -> None:
        self._rpc = rpc
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def next_event(self, timeout_s: float | None) -> Event | None:
        """None after `timeout_s`, or when woken."""
        if not self._events:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            alarm = None if timeout_s is None else loop.call_later(timeout_s, self.wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if alarm is not None:
                    alarm.cancel()
        return self._events.popleft() if self._events else None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> bool:
        """Until the server's side has ended. -> whether it has."""
        await asyncio.wait((self._reader,), timeout=timeout_s)
        return self._reader.done()

    def cut(self) -> None:
        """Cut the call off, if it is not over."""
        self._rpc.cancel()

    async def _read(self) -> None:
        try:
            async for message in self._rpc:
                self._put(Arrived(message, time.monotonic()))
        except grpc.RpcError as error:
            self._put(failure(error))
        except asyncio.CancelledError:  # grpc.aio's answer to cut(), and the loop's to its end
            self._rpc.cancel()
            self._put(Failed("CANCELLED", "cut off by this client", time.monotonic()))
        else:
            self._put(Ended(time.monotonic()))

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self.wake()


class AsyncTransport:
    """Belongs to the event loop in which it is first used."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._guard = ProcessGuard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel: Any = None
        self._stub: Any = None

    def open(self, message: Any) -> AsyncCall:
        """Begin a streamed call of one request; the request side is closed behind it."""
        return AsyncCall(self._stream(message, None))

    async def order(self, message: Any, answer: str, timeout_s: float | None) -> str:
        """A request with one response. -> its output `answer`. Raises OrpheusError."""
        try:
            return wire.read_answer([response async for response in self._stream(message, timeout_s)], answer)
        except grpc.RpcError as error:
            raise status_error(error) from error

    async def unary(self, method: str, message: Any, timeout_s: float | None) -> Any:
        """Raises OrpheusError."""
        try:
            return await getattr(self._connected(), method)(message, timeout=timeout_s, metadata=self.connection.metadata())
        except grpc.RpcError as error:
            raise status_error(error) from error

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    def _stream(self, message: Any, timeout_s: float | None) -> Any:
        return self._connected().ModelStreamInfer(iter((message,)), timeout=timeout_s, metadata=self.connection.metadata())

    def _connected(self) -> Any:
        """The stub. grpc.aio ties a channel to the running loop, so it is made at the first use."""
        self._guard.check()
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            credentials, options = self.connection.credentials(), self.connection.options()
            if credentials is None:
                self._channel = grpc.aio.insecure_channel(self.connection.url, options=options)
            else:
                self._channel = grpc.aio.secure_channel(self.connection.url, credentials, options=options)
            self._stub = wire.make_stub(self._channel)
        if self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop; make one in each")
        return self._stub
