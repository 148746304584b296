"""Processor cores, shared fairly by the threads that have work."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

DONE_S = 1e-9
"""Work below this is rounding."""


@dataclass(eq=False)
class _Job:
    """left_s: seconds that it would still take with a core for each of its threads."""

    left_s: float
    threads: int
    done: asyncio.Future[None]


class Cores:
    """count: cores; a GPU that several models share is one core."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._jobs: list[_Job] = []
        self._settled_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def work(self, seconds: float, threads: int = 1) -> None:
        """Work that takes `seconds` on an idle machine with a core for each of its threads, which go on in step."""
        if seconds <= 0:
            return
        self._settle()
        job = _Job(seconds, threads, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._set_timer()
        await job.done

    @property
    def _speed(self) -> float:
        threads = sum(job.threads for job in self._jobs)
        return min(1.0, self._count / threads) if threads else 1.0

    def _settle(self) -> None:
        """Bring everybody's work up to now."""
        now = asyncio.get_running_loop().time()
        worked_s = (now - self._settled_at) * self._speed
        self._settled_at = now
        for job in self._jobs:
            job.left_s -= worked_s

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._jobs:
            wait_s = max(0.0, min(job.left_s for job in self._jobs)) / self._speed
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._settle()
        for job in [job for job in self._jobs if job.left_s <= DONE_S]:
            self._jobs.remove(job)
            if not job.done.done():  # whoever waited may be gone
                job.done.set_result(None)
        self._set_timer()
