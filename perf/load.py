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
from pathlib import Path

from loadgen import results
from loadgen.bench import Bench, Traffic
from loadgen.find_max import Limits, find_max
from loadgen.target import add_target, target
from loadgen.texts import MIXES, texts_of
from loadgen.traffic import ARRIVALS
from orpheus_client import SpeechOptions

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
            mean_audio_s = bench.measure(Traffic("closed", 1), len(bench.texts)).mean_audio_s
            found = {arrivals: find_max(bench, arrivals, mean_audio_s, limits, args.streams, args.most) for arrivals in ARRIVALS}
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
    content["points"] = [point.to_dict() for point in points]
    print(results.markdown([point.row for point in points], columns))
    if args.find_max:
        print(f"\nMost listeners within the limits: {content['most_listeners']}")
    if args.out:
        results.save(args.out, content)


if __name__ == "__main__":
    main()
