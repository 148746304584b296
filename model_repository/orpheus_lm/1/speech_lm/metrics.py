"""What the model counts. Plain numbers, changed on the event loop; the adapter publishes them to Triton's metrics from its own thread.

A histogram is published as Prometheus does it, cumulative buckets with a label `le`, because Triton's custom metrics had no histogram
before 24.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge"]
FIRST_WINDOW_BUCKETS_MS = (10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Sample:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


FAMILIES: dict[str, tuple[Kind, str]] = {
    "orpheus_lm_active_streams": ("gauge", "Streams being served"),
    "orpheus_lm_active_generations": ("gauge", "Generations running in the engine"),
    "orpheus_lm_outstanding_windows": ("gauge", "Windows that the codec has not acknowledged yet"),
    "orpheus_lm_streams_total": ("counter", "Streams ended, by outcome"),
    "orpheus_lm_cancels_total": ("counter", "Streams cancelled, by cause"),
    "orpheus_lm_tokens_total": ("counter", "Token ids taken from the engine"),
    "orpheus_lm_resyncs_total": ("counter", "Frames broken by an unexpected slot"),
    "orpheus_lm_dropped_codes_total": ("counter", "Audio tokens lost in broken frames"),
    "orpheus_lm_foreign_ids_total": ("counter", "Token ids skipped because they are no audio"),
    "orpheus_lm_frames_total": ("counter", "Frames of audio"),
    "orpheus_lm_windows_total": ("counter", "Windows sent to the codec"),
    "orpheus_lm_first_window_ms_bucket": ("counter", "Milliseconds from the request to its first window, cumulative buckets"),
    "orpheus_lm_first_window_ms_sum": ("counter", "Sum of the milliseconds from request to first window"),
    "orpheus_lm_first_window_ms_count": ("counter", "Streams that sent a first window"),
}


@dataclass
class Metrics:
    active_streams: int = 0
    active_generations: int = 0
    outstanding_windows: int = 0
    totals: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    cancels: Counter[str] = field(default_factory=Counter[str])
    first_window_buckets: Counter[str] = field(default_factory=Counter[str])
    first_window_ms: float = 0.0

    def first_window(self, ms: float) -> None:
        self.totals["first_window_ms_count"] += 1
        self.first_window_ms += ms
        for edge in FIRST_WINDOW_BUCKETS_MS:
            self.first_window_buckets[str(edge)] += ms <= edge
        self.first_window_buckets["+Inf"] += 1

    def samples(self) -> Iterator[Sample]:
        """Every metric's value now; counters never fall."""
        yield Sample("orpheus_lm_active_streams", (), self.active_streams)
        yield Sample("orpheus_lm_active_generations", (), self.active_generations)
        yield Sample("orpheus_lm_outstanding_windows", (), self.outstanding_windows)
        for name, value in self.totals.items():
            yield Sample(f"orpheus_lm_{name}", (), value)
        yield Sample("orpheus_lm_first_window_ms_sum", (), self.first_window_ms)
        for family, label, counts in (
            ("orpheus_lm_streams_total", "outcome", self.outcomes),
            ("orpheus_lm_cancels_total", "cause", self.cancels),
            ("orpheus_lm_first_window_ms_bucket", "le", self.first_window_buckets),
        ):
            for value, count in counts.items():
                yield Sample(family, ((label, value),), count)
