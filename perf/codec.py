"""What the codec costs: milliseconds per window, side by side in one run.

    PYTHONPATH=model_repository/snac_decoder/1 .venv/bin/python perf/codec.py --out perf/results/codec.json

Windows are those of a stream in its middle (5 frames of context) and its first one; `whole` decodes all of the window instead of the
new samples' part of each layer; `rows` windows share a forward. One core each. Every case is run in turn, round after round, so that a
change of the machine's speed reaches all of them; medians are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from snac_codec.config import CODES_PER_FRAME
from snac_codec.decoder import OnnxDecoder

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Case:
    """frames: the window's; first_sample, n_samples: the part wanted."""

    name: str
    rows: int
    frames: int
    first_sample: int
    n_samples: int


CASES = (
    Case("first chunk", 1, 3, 0, 1024),
    Case("1 new frame", 1, 6, 5120, 2048),
    Case("1 new frame, whole", 1, 6, 0, 6 * 2048),
    Case("1 new frame, 4 rows", 4, 6, 5120, 2048),
    Case("4 new frames", 1, 9, 5120, 4 * 2048),
    Case("8 new frames", 1, 13, 5120, 8 * 2048),
    Case("8 new frames, whole", 1, 13, 0, 13 * 2048),
    Case("8 new frames, 4 rows", 4, 13, 5120, 8 * 2048),
)


def measure(decoder: OnnxDecoder, rounds: int) -> dict[str, list[float]]:
    """Seconds per forward of each case, by name, one per round."""
    rng = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {case.name: [] for case in CASES}
    for number in range(rounds + 3):
        for case in CASES:
            codes = rng.integers(0, decoder.config.codebook_size, (case.rows, CODES_PER_FRAME * case.frames), dtype=np.int32)
            began = time.perf_counter()
            decoder.decode(codes, np.zeros(case.rows, np.int64), case.first_sample, case.n_samples)
            if number >= 3:  # the first rounds warm up
                seconds[case.name].append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "model_repository/snac_decoder/1/pocket")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    args = parser.parse_args()
    seconds = measure(OnnxDecoder(args.folder), args.rounds)
    results: list[dict[str, Any]] = []
    for case in CASES:
        ms = 1000 * statistics.median(seconds[case.name]) / case.rows
        new_ms = 1000 * (case.n_samples if "whole" not in case.name else 2048 * int(case.name.split()[0])) / 24000
        results.append(asdict(case) | {"ms_per_window": round(ms, 2), "real_time_factor_of_new_audio": round(ms / new_ms, 4)})
        print(f"{case.name:24} {ms:7.2f} ms per window   {ms / new_ms:.4f} of real time")
    if args.out:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"machine": machine, "rounds": args.rounds, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
