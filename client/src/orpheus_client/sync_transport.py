"""Blocking I/O: one gRPC channel, and calls that a thread of their own reads."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import grpc

from . import wire
from .connection import Connection, ProcessGuard
from .errors import OrpheusError, from_status
from .exchange import Arrived, Ended, Event, Failed


class SyncCall:
    """One streamed call. Its thread notes when each response comes, however busy the caller is, and reads on when nobody asks any more."""

    def __init__(self, rpc: Any) -> None:
        self._rpc = rpc
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._done = threading.Event()
        threading.Thread(target=self._read, name="orpheus-stream", daemon=True).start()

    def next_event(self, timeout_s: float | None) -> Event | None:
        """None after `timeout_s`, or when woken."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def wake(self) -> None:
        self._events.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Until the server's side has ended. -> whether it has."""
        return self._done.wait(timeout_s)

    def cut(self) -> None:
        """Cut the call off, if it is not over."""
        self._rpc.cancel()

    def _read(self) -> None:
        try:
            for message in self._rpc:
                self._events.put(Arrived(message, time.monotonic()))
        except grpc.RpcError as error:
            self._events.put(failure(error))
        else:
            self._events.put(Ended(time.monotonic()))
        finally:
            self._done.set()


class SyncTransport:
    """Every method may be called from any thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._guard = ProcessGuard()
        credentials, options = connection.credentials(), connection.options()
        if credentials is None:
            self._channel = grpc.insecure_channel(connection.url, options=options)
        else:
            self._channel = grpc.secure_channel(connection.url, credentials, options=options)
        self._stub = wire.make_stub(self._channel)

    def open(self, message: Any) -> SyncCall:
        """Begin a streamed call of one request; the request side is closed behind it."""
        return SyncCall(self._stream(message, None))

    def order(self, message: Any, answer: str, timeout_s: float | None) -> str:
        """A request with one response. -> its output `answer`. Raises OrpheusError."""
        try:
            return wire.read_answer(list(self._stream(message, timeout_s)), answer)
        except grpc.RpcError as error:
            raise status_error(error) from error

    def unary(self, method: str, message: Any, timeout_s: float | None) -> Any:
        """Raises OrpheusError."""
        self._guard.check()
        try:
            return getattr(self._stub, method)(message, timeout=timeout_s, metadata=self.connection.metadata())
        except grpc.RpcError as error:
            raise status_error(error) from error

    def close(self) -> None:
        self._channel.close()

    def _stream(self, message: Any, timeout_s: float | None) -> Any:
        self._guard.check()
        return self._stub.ModelStreamInfer(iter((message,)), timeout=timeout_s, metadata=self.connection.metadata())


def failure(error: Any) -> Failed:
    """error: a grpc.RpcError of either API, which has code() and details() though its type does not say so."""
    return Failed(error.code().name, error.details() or "", time.monotonic())


def status_error(error: Any) -> OrpheusError:
    return from_status(error.code().name, error.details() or "", "")
