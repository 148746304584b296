"""What the codec costs: milliseconds per tile on each engine, side by side in one run.

    PYTHONPATH=model_repository/snac_decoder/1 .venv/bin/python perf/codec.py --out perf/results/codec.json

Every case is run in turn, round after round, so that a change of the machine's speed reaches all of them; medians are printed. On a
processor a forward runs on one core. --checkpoint adds the torch engine (a SNAC folder; torch must be installed); --device cuda measures a
GPU, with
--rows for the tiles in one forward and --precision for torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from snac_codec.engines import blank, create_engine
from snac_codec.engines.base import Engine
from snac_codec.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
WARM_ROUNDS = 3


def engines_of(args: argparse.Namespace) -> dict[str, Engine]:
    """By name. One forward at a time."""
    sizes = tuple(int(size) for size in args.tiles.split(","))
    settings = Settings("", "onnxruntime", args.device, "float32", threads=1, max_rows=max(args.rows), max_frames=64, tile_latents=sizes)
    made = {"onnxruntime": create_engine(settings, args.folder)}
    if args.device == "cpu":
        made["openvino"] = create_engine(replace(settings, engine="openvino"), args.folder)
    for precision in args.precision if args.checkpoint else ():
        made[f"torch {precision}"] = create_engine(replace(settings, engine="torch", precision=precision), args.checkpoint)
    return made


def measure(engines: dict[str, Engine], rows: list[int], rounds: int) -> dict[tuple[str, int, int], list[float]]:
    """Seconds per forward, one per round, by engine, latents and rows."""
    rng = np.random.default_rng(0)
    seconds: dict[tuple[str, int, int], list[float]] = {}
    for number in range(rounds + WARM_ROUNDS):
        for name, engine in engines.items():
            for size in engine.sizes:
                for count in (count for count in rows if count <= engine.max_rows):
                    inputs = blank(engine.config, count, size)
                    inputs.codes[:] = rng.integers(0, engine.config.codebook_size, inputs.codes.shape)
                    began = time.perf_counter()
                    engine.decode(inputs)
                    if number >= WARM_ROUNDS:
                        seconds.setdefault((name, size, count), []).append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "model_repository/snac_decoder/1/pocket", help="exported codec")
    parser.add_argument("--checkpoint", type=Path, help="SNAC checkpoint, for torch")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", nargs="+", default=["float32"], help="of torch: float32, float16, bfloat16")
    parser.add_argument("--tiles", default="2,4,8,16,32", help="latents")
    parser.add_argument("--rows", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    args = parser.parse_args()
    engines = engines_of(args)
    seconds = measure(engines, args.rows, args.rounds)
    results: list[dict[str, Any]] = []
    for (name, size, rows), taken in seconds.items():
        ms = 1000 * statistics.median(taken) / rows
        audio_ms = 1000 * size * engines[name].config.samples_per_latent / engines[name].config.sampling_rate
        results.append(
            {"engine": name, "latents": size, "rows": rows, "ms_per_tile": round(ms, 3), "real_time_factor": round(ms / audio_ms, 5)}
        )
        print(f"{name:20} {size:3} latents {rows:3} rows {ms:8.2f} ms per tile   {ms / audio_ms:.4f} of real time")
    if args.out:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"machine": machine, "rounds": args.rounds, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
