"""How many listeners a machine carries: simulated from what its parts cost, and checked against a measurement here.

    make capacity

1. The language model's steps and the codec's forwards are measured alone on the idle machine.
2. A running server is measured in a closed loop, as by `make load`.
   What windows cost besides (Triton, Python, gRPC, the client) is its processor time.
3. Our own scheduling (windows, chunks, flow control: the code of the model repository) runs in simulated time with those costs. One figure
   is fitted, the delay around a window, to the first audio with one caller; the other lines are predictions beside what was measured.
4. The same simulation in an open loop finds the most listeners at a time, for constant and Poisson arrivals.
5. The same for Orpheus 3B in FP8 on GPUs, with costs ON PAPER: from data sheets and stated assumptions (perf/simulation/paper.py), nothing
   measured.
Written: capacity.json (costs, every stream), capacity.csv, capacity.md, capacity_paper.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from embedded.repository import parameters
from embedded.running import REPOSITORY
from loadgen import results
from loadgen.bench import Bench, Point, Traffic
from loadgen.find_max import Limits, Measures, find_max
from loadgen.target import own_server
from loadgen.texts import MIXES, drawn, texts_of
from loadgen.traffic import ARRIVALS
from simulation.bench import Model, SimulatedBench
from simulation.costs import Costs
from simulation.measured import Surroundings, measured_costs
from simulation.paper import GPUS, paper_costs
from snac_codec.config import load_config
from snac_codec.settings import load_settings as load_codec_settings
from speech_lm.frontends import load_frontend
from speech_lm.settings import load_settings
from speech_lm.voice import load_voice

COLUMNS = {
    "how": "",
    "traffic": "traffic",
    "first_audio_p50_ms": "first audio p50, ms",
    "first_audio_p95_ms": "p95, ms",
    "gap_p95_ms": "gap p95, ms",
    "streams_with_underruns": "ran dry",
    "streams": "of",
    "times_real_time": "times real time",
    "codec_batch": "codec batch",
}
MOST_ON_GPU = 256
LM, CODEC = REPOSITORY / "orpheus_lm", REPOSITORY / "snac_decoder"


def shipped_model() -> Model:
    """As served here; how long texts take to say is not known yet."""
    settings, codec_settings = load_settings(parameters(LM)), load_codec_settings(parameters(CODEC))
    voice = load_voice(settings.path(LM / "1"))
    return Model(voice, load_frontend(voice), load_config(codec_settings.path(CODEC / "1")), settings, 1.0)


def with_pace(model: Model, texts: Sequence[str], audio_s: float) -> Model:
    """texts: that took `audio_s` together."""
    tokens = sum(len(model.frontend.read(text, model.voice.voices[0]).prompt_ids) for text in texts)
    return replace(model, frames_per_prompt_token=audio_s / model.voice.codec.frame_s / tokens)


def fitted(bench: SimulatedBench, measured: Point, n: int) -> SimulatedBench:
    """With the delay around a window that makes the first audio of one caller what was measured."""

    def delayed(window_delay_s: float) -> SimulatedBench:
        return bench.with_costs(replace(bench.costs, window_delay_s=window_delay_s))

    lacking_ms = measured.row["first_audio_p50_ms"] - delayed(0.0).measure(Traffic("closed", 1), n).row["first_audio_p50_ms"]
    return delayed(max(0.0, lacking_ms / 1000))


def most(bench: SimulatedBench, limits: Limits, streams: int, at_most: int) -> dict[str, int]:
    mean_audio_s = bench.measure(Traffic("closed", 1), len(bench.texts)).mean_audio_s
    return {arrivals: find_max(bench, arrivals, mean_audio_s, limits, streams, at_most)[0] for arrivals in ARRIVALS}


def on_paper(model: Model, texts: Sequence[str], limits: Limits, streams: int) -> list[dict[str, Any]]:
    settings = replace(model.settings, max_streams=2 * MOST_ON_GPU)
    rows: list[dict[str, Any]] = []
    for gpu in GPUS:
        bench = SimulatedBench(replace(model, settings=settings), paper_costs(gpu), texts)
        first = {n: bench.measure(Traffic("closed", n), max(streams, 2 * n)).row for n in (1, 16)}
        listeners = most(bench, limits, streams, MOST_ON_GPU)
        rows.append(
            {
                "gpu": gpu.name,
                "step_1_ms": round(1000 * bench.costs.step_s(1), 2),
                "step_64_ms": round(1000 * bench.costs.step_s(64), 2),
                **{f"first_audio_p95_at_{n}_ms": row["first_audio_p95_ms"] for n, row in first.items()},
                **{f"listeners_{arrivals}": f"{n} or more" if n == MOST_ON_GPU else n for arrivals, n in listeners.items()},
                "source": gpu.source,
            }
        )
    return rows


PAPER_COLUMNS = {
    "gpu": "GPU",
    "step_1_ms": "step at 1, ms",
    "step_64_ms": "at 64, ms",
    "first_audio_p95_at_1_ms": "first audio p95 at 1, ms",
    "first_audio_p95_at_16_ms": "at 16, ms",
    "listeners_constant": "listeners, constant",
    "listeners_poisson": "Poisson",
    "source": "figures from",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="callers to measure and to simulate")
    parser.add_argument("--streams", type=int, default=64, help="in each measurement, and at least twice the callers")
    parser.add_argument("--rounds", type=int, default=5, help="of each cost")
    parser.add_argument("--texts", default="mixed", help=f"{', '.join(MIXES)}, or a file with one text a line")
    parser.add_argument("--limit-dry", type=float, default=0.01, help="share of streams that may run dry or fail")
    parser.add_argument("--limit-first-ms", type=float, default=300.0, help="for the 95th percentile of first audio")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="folder")
    args = parser.parse_args()
    content = results.report({name: value for name, value in vars(args).items() if name != "out"})
    limits = Limits(args.limit_dry, args.limit_first_ms / 1000)
    texts, model = texts_of(args.texts), shipped_model()
    costs = measured_costs(load_codec_settings(parameters(CODEC)), streams=[1, 2, 4, 8, 16, 32], rounds=args.rounds)
    traffic = [Traffic("closed", n) for n in sorted({1, *args.concurrency})]

    def measure_all(bench: Measures) -> list[Point]:
        points: list[Point] = []
        for of in traffic:
            bench.warm_up(of.concurrency)
            points.append(bench.measure(of, max(args.streams, 2 * of.concurrency)))
        return points

    with own_server() as server:
        around = Surroundings(server)
        around.begin()
        measured = measure_all(Bench(server.grpc_url, texts, {}, seed=0, processes=1, start_delay_s=0.0))
        costs = replace(costs, window_core_s=around.core_s_per_window())
    model = with_pace(model, drawn(texts, max(args.streams, 2), 0), measured[0].summary["audio_s"])
    bench = fitted(SimulatedBench(model, costs, texts), measured[0], args.streams)
    simulated = measure_all(bench)
    listeners = most(bench, limits, args.streams, model.settings.max_streams)
    paper = on_paper(model, texts, limits, args.streams)

    rows = [
        {"how": how, **point.row}
        for pair in zip(measured, simulated, strict=True)
        for how, point in zip(("measured", "simulated"), pair, strict=True)
    ]
    content |= {
        "costs": costs_report(bench.costs),
        "frames_per_prompt_token": model.frames_per_prompt_token,
        "most_listeners_simulated": listeners,
        "on_paper": paper,
        "measured": [point.to_dict() for point in measured],
        "simulated": [point.to_dict() for point in simulated],
    }
    results.save_all(args.out / "capacity", content, f"Measured and simulated, on {results.machine_line(content)}", rows, COLUMNS)
    print(f"\nMost listeners within the limits, simulated: {listeners}\n")
    results.save_table(args.out / "capacity_paper.md", "On paper, not measured: Orpheus 3B in FP8", paper, PAPER_COLUMNS)


def costs_report(costs: Costs) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(costs).items() if name not in ("step_s", "forward_s")},
        "step_s": dict(costs.step_s.points),
        "forward_s": {size: dict(curve.points) for size, curve in costs.forward_s.items()},
    }


if __name__ == "__main__":
    main()
