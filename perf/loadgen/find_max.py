"""How many listeners a server serves well."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import Protocol

from loadgen.bench import Point, Traffic


@dataclass(frozen=True)
class Limits:
    """share_dry: the largest share of streams that may run dry or fail; first_audio_p95_s: the largest."""

    share_dry: float
    first_audio_p95_s: float

    def hold(self, point: Point) -> bool:
        first = point.summary["time_to_first_audio_s"]
        return first is not None and point.share_dry <= self.share_dry and first["p95"] <= self.first_audio_p95_s


class Measures(Protocol):
    """A `loadgen.bench.Bench`, or whoever else can say what traffic does."""

    def warm_up(self, at_a_time: int) -> None: ...
    def measure(self, traffic: Traffic, n: int) -> Point: ...


FIRST_TRIED = 4
"""Fewer listeners take minutes to measure and seldom are the answer."""


def find_max(bench: Measures, arrivals: str, mean_audio_s: float, limits: Limits, n: int, most: int) -> tuple[int, list[Point]]:
    """-> the most listeners at a time within the limits, 0 for none, at most `most`; and every point on the way. Doubling, then halving
    the gap: a point that failed by chance is not tried again. mean_audio_s: of the bench's texts."""
    points: list[Point] = []

    def good(listeners: int) -> bool:
        bench.warm_up(listeners)
        point = bench.measure(Traffic(arrivals, 0, listeners / mean_audio_s), max(n, 4 * listeners))
        points.append(Point(point.summary, {"listeners": listeners, **point.row}, point.raw))
        print(f"{arrivals}, {listeners} listeners: {'held' if limits.hold(point) else 'not held'}", file=sys.stderr)
        return limits.hold(point)

    held, failed = 0, most + 1
    for listeners in itertools.takewhile(lambda value: value <= most, (FIRST_TRIED << power for power in itertools.count())):
        if not good(listeners):
            failed = listeners
            break
        held = listeners
    while failed - held > 1:
        middle = (held + failed) // 2
        held, failed = (middle, failed) if good(middle) else (held, middle)
    return held, points
