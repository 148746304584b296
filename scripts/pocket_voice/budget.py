"""A training budget in minutes that survives interruptions, and the rate that follows it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class RateShape:
    """Rises over the first steps of a process, stays, falls in a straight line to nothing over the last share of the budget."""

    warmup_steps: int
    decay_share: float

    def scale(self, steps_since_start: int, share: float) -> float:
        """Factor of the peak rate, 0 to 1; `share` of the budget is used."""
        return min(1.0, (steps_since_start + 1) / self.warmup_steps, max(0.0, (1 - share) / self.decay_share))


class Budget:
    """Counts only time spent in steps: neither the time between two processes nor the first step, which compiles."""

    def __init__(self, minutes: float, used_s: float = 0.0) -> None:
        self._total_s, self.used_s = minutes * 60, used_s
        self._last: float | None = None

    @property
    def share(self) -> float:
        return self.used_s / self._total_s

    def tick(self) -> None:
        """Call after every step."""
        now = time.monotonic()
        if self._last is not None:
            self.used_s += now - self._last
        self._last = now
