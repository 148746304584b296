"""The search for the most listeners, on a bench whose server holds so many and no more."""

from __future__ import annotations

from typing import Any

import pytest
from loadgen.bench import Point, Traffic
from loadgen.find_max import Limits, find_max

AUDIO_S = 2.5


class SteadyServer:
    """Serves `holds` listeners well; above it one stream in ten runs dry, or first audio is late, or streams fail."""

    def __init__(self, holds: int, fault: str) -> None:
        self.holds, self.fault = holds, fault
        self.tried: list[int] = []

    def warm_up(self, at_a_time: int) -> None:
        assert at_a_time >= 1

    def measure(self, traffic: Traffic, n: int) -> Point:
        listeners = round(traffic.rate_per_s * AUDIO_S)
        self.tried.append(listeners)
        bad = listeners > self.holds
        failed = n // 10 if bad and self.fault == "fail" else 0
        summary: dict[str, Any] = {
            "complete": n - failed,
            "failures": {"Unavailable": failed} if failed else {},
            "streams_with_underruns": n // 10 if bad and self.fault == "dry" else 0,
            "time_to_first_audio_s": {"p95": 0.9 if bad and self.fault == "late" else 0.1},
            "audio_s": (n - failed) * AUDIO_S,
        }
        return Point(summary, {}, [])


@pytest.mark.parametrize("fault", ["dry", "late", "fail"])
@pytest.mark.parametrize("holds", [0, 1, 3, 8, 13, 32, 50])
def test_the_most_is_found(holds: int, fault: str) -> None:
    server = SteadyServer(holds, fault)
    most, points = find_max(server, "poisson", AUDIO_S, Limits(0.01, 0.3), 40, 32)
    assert most == min(holds, 32)
    assert [point.row["listeners"] for point in points] == server.tried
    assert len(server.tried) == len(set(server.tried)), "no point is measured twice"


def test_a_point_without_a_whole_stream_is_not_held() -> None:
    nothing: dict[str, Any] = {"complete": 0, "failures": {"Unavailable": 4}, "streams_with_underruns": 0, "time_to_first_audio_s": None}
    assert not Limits(1.0, 10.0).hold(Point(nothing, {}, []))
