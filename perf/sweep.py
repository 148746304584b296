"""Triton's own perf_analyzer over the running ensemble: streams at a time 1, 2, 4, 8, 16.

    make sweep                                   a server of its own
    make sweep ARGS="--url localhost:8001"       a running one

Every point is one run of perf_analyzer over gRPC streaming (installed on first use). From its export come time to first audio, gaps between
chunks, the real-time factor, and whether a listener who starts at the first chunk would have run dry; from Triton's statistics
the codec's mean batch. Written: sweep.json (every stream), sweep.csv, sweep.md, sweep.png.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from loadgen import perf_analyzer, plots, results
from loadgen.bench import Bench, Point
from loadgen.machine import ROOT
from loadgen.target import add_target, target
from loadgen.texts import MIXES, texts_of

INSTALLED = ROOT / ".perf-analyzer"
COLUMNS = {
    "concurrency": "streams at a time",
    "streams": "streams",
    "failed": "failed",
    "first_audio_p50_ms": "first audio p50, ms",
    "first_audio_p90_ms": "p90",
    "first_audio_p95_ms": "p95",
    "first_audio_p99_ms": "p99",
    "gap_p95_ms": "gap p95, ms",
    "gap_max_ms": "longest gap, ms",
    "real_time_factor_p50": "real-time factor p50",
    "streams_with_underruns": "ran dry",
    "times_real_time": "times real time",
    "codec_batch": "codec batch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_target(parser)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--streams", type=int, default=48, help="in each point, and at least four times its concurrency")
    parser.add_argument("--texts", default="medium", help=f"{', '.join(MIXES)}, or a file with one text a line")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="folder")
    args = parser.parse_args()
    analyzer = perf_analyzer.find_perf_analyzer(INSTALLED)
    version = analyzer.version()
    print(version, file=sys.stderr)
    content = results.report({"texts": args.texts, "concurrency": args.concurrency, "streams": args.streams}, perf_analyzer=version)
    points: list[Point] = []
    texts = texts_of(args.texts)
    with target(args.url) as url:
        bench = Bench(url, texts, {}, seed=0, processes=1, start_delay_s=0.0)
        for concurrency in args.concurrency:
            n = max(args.streams, 4 * concurrency)
            bench.warm_up(concurrency)
            run = partial(perf_analyzer.sweep_point, analyzer, url, texts, concurrency, n)
            points.append(bench.observe({"concurrency": concurrency}, run))
            print(f"{concurrency} at a time: {n} streams, {points[-1].summary['audio_s']:.0f} s of audio", file=sys.stderr)
    rows = [point.row for point in points]
    content["points"] = [point.to_dict() for point in points]
    title = f"{version} on {results.machine_line(content)}"
    results.save_all(args.out / "sweep", content, title, rows, COLUMNS)
    plots.sweep(rows, title, args.out / "sweep.png")


if __name__ == "__main__":
    main()
