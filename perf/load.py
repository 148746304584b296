"""Put a server under load and say how soon, how many, and whether playback ran dry.

    make load ARGS="--concurrency 8"                           closed loop: 8 callers, each calls again at once
    make load ARGS="--arrivals poisson --rate 2"               open loop: 2 callers a second, independent of each other
    make load ARGS="--find-max"                                the most listeners at the same time that are served well

Every stream is played by a model listener, who begins --start-delay-ms after the first chunk and then never pauses while there is
audio: what he waits for later is an underrun. A stream that is refused, broken, silent, empty, cut off, or too short for its text has
failed and counts as one that was not served well. The server is warmed up with as many streams at a time as the measurement has.

--find-max takes n listeners as an open loop in which n utterances sound at a time on average: n / (mean duration of the texts) callers a
second, evenly spaced (constant) or independent (poisson).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen import driver, results, triton_statistics
from loadgen.driver import Job, Load, Record
from loadgen.target import add_target, target
from loadgen.texts import MIXES, drawn, texts_of
from loadgen.traffic import ARRIVALS, start_times_s
from orpheus_client import SpeechOptions
from orpheus_client.measuring import summarise

COLUMNS = {
    "traffic": "traffic",
    "streams": "streams",
    "failed": "failed",
    "first_audio_p50_ms": "first audio p50, ms",
    "first_audio_p95_ms": "p95, ms",
    "first_audible_p50_ms": "audible p50, ms",
    "gap_max_ms": "longest gap, ms",
    "streams_with_underruns": "ran dry",
    "times_real_time": "times real time",
    "codec_batch": "codec batch",
}


@dataclass(frozen=True)
class Traffic:
    """concurrency: of a closed loop, else 0; rate_per_s: of an open one."""

    arrivals: str
    concurrency: int = 0
    rate_per_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.concurrency} callers" if self.concurrency else f"{self.arrivals}, {self.rate_per_s:.3g}/s"


@dataclass(frozen=True)
class Point:
    """One measurement."""

    summary: dict[str, Any]
    row: dict[str, Any]
    raw: list[dict[str, Any]]

    @property
    def share_dry(self) -> float:
        """Of the streams, those that ran dry or failed."""
        failed = sum(self.summary["failures"].values())
        return (self.summary["streams_with_underruns"] + failed) / (self.summary["complete"] + failed)

    @property
    def mean_audio_s(self) -> float:
        return self.summary["audio_s"] / max(1, self.summary["complete"])


class Bench:
    """Measures one server with texts in a random order that the seed repeats."""

    def __init__(self, url: str, texts: Sequence[str], options: SpeechOptions, seed: int, processes: int, start_delay_s: float) -> None:
        self.url, self.texts, self.options, self.seed = url, texts, options, seed
        self.processes, self.start_delay_s = processes, start_delay_s

    def warm_up(self, at_a_time: int) -> None:
        self._run(Traffic("closed", at_a_time), 2 * at_a_time)

    def measure(self, traffic: Traffic, n: int) -> Point:
        before = triton_statistics.counts(self.url)
        records, wall_s = self._run(traffic, n)
        statistics = triton_statistics.difference(before, triton_statistics.counts(self.url))
        summary = summarise([record.run for record in records], wall_s, self.start_delay_s)
        summary["longest_lateness_s"] = max(record.late_s for record in records)
        summary["listeners_at_a_time"] = summary["audio_s"] / wall_s
        summary["triton"] = statistics
        return Point(summary, results.row({"traffic": str(traffic)}, summary, statistics), results.raw(records, self.start_delay_s))

    def _run(self, traffic: Traffic, n: int) -> tuple[list[Record], float]:
        texts = drawn(self.texts, n, self.seed)
        if traffic.concurrency:
            jobs = [Job(text) for text in texts]
        else:
            times = start_times_s(traffic.arrivals, traffic.rate_per_s, n, self.seed)
            jobs = [Job(text, due_s) for text, due_s in zip(texts, times, strict=True)]
        return driver.run(Load(self.url, jobs, traffic.concurrency, self.options), self.processes)


@dataclass(frozen=True)
class Limits:
    """share_dry: the largest share of streams that may run dry or fail; first_audio_p95_s: the largest."""

    share_dry: float
    first_audio_p95_s: float

    def hold(self, point: Point) -> bool:
        first = point.summary["time_to_first_audio_s"]
        return first is not None and point.share_dry <= self.share_dry and first["p95"] <= self.first_audio_p95_s


def find_max(bench: Bench, arrivals: str, limits: Limits, n: int, most: int) -> tuple[int, list[Point]]:
    """-> the most listeners at a time within the limits, 0 for none, at most `most`; and every point on the way. Doubling, then halving
    the gap: a point that failed by chance is not tried again."""
    alone = bench.measure(Traffic("closed", 1), len(bench.texts))
    points: list[Point] = []

    def good(listeners: int) -> bool:
        bench.warm_up(listeners)
        point = bench.measure(Traffic(arrivals, 0, listeners / alone.mean_audio_s), max(n, 4 * listeners))
        points.append(Point(point.summary, {"listeners": listeners, **point.row}, point.raw))
        print(f"{arrivals}, {listeners} listeners: {'held' if limits.hold(point) else 'not held'}", file=sys.stderr)
        return limits.hold(point)

    held, failed = 0, most + 1
    for listeners in itertools.takewhile(lambda value: value <= most, (2**power for power in itertools.count())):
        if not good(listeners):
            failed = listeners
            break
        held = listeners
    while failed - held > 1:
        middle = (held + failed) // 2
        held, failed = (middle, failed) if good(middle) else (held, middle)
    return held, points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_target(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--concurrency", type=int, nargs="+", default=[1, 4, 8, 16], help="closed loop with so many callers, one after another"
    )
    what.add_argument("--arrivals", choices=ARRIVALS, help="open loop; with --rate")
    what.add_argument("--find-max", action="store_true")
    parser.add_argument("--rate", type=float, nargs="+", default=[1.0], help="streams per second of an open loop")
    parser.add_argument("--streams", type=int, default=48, help="in each measurement, and at least twice the callers")
    parser.add_argument("--texts", default="mixed", help=f"{', '.join(MIXES)}, or a file with one text a line")
    parser.add_argument("--chunk-frames", type=int, help="CHUNK_FRAMES of every request")
    parser.add_argument("--start-delay-ms", type=float, default=0.0, help="how long the listener waits after the first chunk")
    parser.add_argument("--processes", type=int, default=1, help="that share the callers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-dry", type=float, default=0.01, help="--find-max: share of streams that may run dry or fail")
    parser.add_argument("--limit-first-ms", type=float, default=300.0, help="--find-max: for the 95th percentile of first audio")
    parser.add_argument("--most", type=int, default=32, help="--find-max: listeners to try at most")
    parser.add_argument("--out", type=Path, help="JSON file, for example perf/results/load.json")
    args = parser.parse_args()
    content = results.report({name: value for name, value in vars(args).items() if name not in ("out", "url")})
    options: SpeechOptions = {"chunk_frames": args.chunk_frames}
    with target(args.url) as url:
        bench = Bench(url, texts_of(args.texts), options, args.seed, args.processes, args.start_delay_ms / 1000)
        if args.find_max:
            limits = Limits(args.limit_dry, args.limit_first_ms / 1000)
            found = {arrivals: find_max(bench, arrivals, limits, args.streams, args.most) for arrivals in ARRIVALS}
            points = [point for _, of_arrivals in found.values() for point in of_arrivals]
            content["most_listeners"] = {arrivals: held for arrivals, (held, _) in found.items()}
            columns = {"listeners": "listeners", **COLUMNS}
        else:
            points = []
            open_loop = [Traffic(args.arrivals, 0, rate) for rate in args.rate] if args.arrivals else []
            for traffic in open_loop or [Traffic("closed", concurrency) for concurrency in args.concurrency]:
                bench.warm_up(traffic.concurrency or 2)
                points.append(bench.measure(traffic, max(args.streams, 2 * traffic.concurrency)))
            columns = COLUMNS
    content["points"] = [{"row": point.row, "summary": point.summary, "streams": point.raw} for point in points]
    print(results.markdown([point.row for point in points], columns))
    if args.find_max:
        print(f"\nMost listeners within the limits: {content['most_listeners']}")
    if args.out:
        results.save(args.out, content)


if __name__ == "__main__":
    main()
