"""Who hears a simulated stream: as the client's measurements see it."""

from __future__ import annotations

import asyncio

import numpy as np
from orpheus_client.measuring import Run, judged
from orpheus_client.timings import Timeline

AUDIBLE = np.int16(10_000)
"""Any value that is no silence: codes have a cost here, not a sound."""


class Listener:
    def __init__(self, text: str, sample_rate_hz: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.began_s = self._loop.time()
        self._text = text
        self._timeline = Timeline(self.began_s, sample_rate_hz)
        self._ended: asyncio.Future[tuple[str, str]] = self._loop.create_future()

    def hear(self, n_samples: int, finish_reason: str) -> None:
        self._timeline.add(np.full(n_samples, AUDIBLE, np.int16), self._loop.time())
        if finish_reason and not self._ended.done():
            self._ended.set_result(("", finish_reason))

    def fail(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_result((type(error).__name__, ""))

    async def heard(self) -> Run:
        """When the stream has ended."""
        error, finish_reason = await self._ended
        return judged(self._timeline.timings(), self._text, error, finish_reason)
