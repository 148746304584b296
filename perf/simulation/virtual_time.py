"""An event loop whose clock jumps from timer to timer, so that hours of traffic take seconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
START_S = 1000.0
"""Not zero: a clock's zero is a value that code may give a meaning."""
PASS_S = 1e-7
"""What a pass of the loop takes: whoever waits for a time that rounding puts at now would else wait for ever."""


class StandstillError(RuntimeError):
    """Everything waits for something that no timer brings."""


class _Jumping(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = START_S

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        self.now += PASS_S
        if not ready:
            if timeout is None:
                raise StandstillError("nothing is left that could happen")
            self.now += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Deterministic as long as what runs in it is: no threads, no sockets."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(work: Coroutine[Any, Any, T]) -> T:
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
