"""What each setting does: one changed at a time, the rest as shipped.

    make knobs
    make knobs ARGS="--only queue threads"

Every setting has a server of its own; --rounds goes over all of them so many times, so that a change of the machine's speed
reaches all. `error` is the power of the difference from the exact decode over that of the speech ("none": every sample equal).
Written: knobs.json (every stream), knobs.csv, knobs.md.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadgen import exactness, results
from loadgen.texts import MIXES, texts_of
from loadgen.variants import Measured, Plan, Variant, measured

COLUMNS = {
    "variant": "setting",
    "concurrency": "streams at a time",
    "first_audio_p50_ms": "first audio p50, ms",
    "first_audio_p95_ms": "p95, ms",
    "gap_p95_ms": "gap p95, ms",
    "streams_with_underruns": "ran dry",
    "underrun_s": "together, s",
    "streams": "of",
    "failed": "failed",
    "times_real_time": "times real time",
    "codec_batch": "codec batch",
    "codec_s_per_audio_s": "codec s/s",
    "error_db": "error, dB",
}
SUMS = ("streams", "failed", "streams_with_underruns", "underrun_s")
AS_SHIPPED = Variant("as shipped")


def queue_delay(us: int) -> Callable[[Path], None]:
    def prepare(repository: Path) -> None:
        config = repository / "snac_decoder" / "config.pbtxt"
        text, n = re.subn(r"max_queue_delay_microseconds: \d+", f"max_queue_delay_microseconds: {us}", config.read_text(encoding="utf-8"))
        if n != 1:
            raise ValueError(f"{config} has {n} queue delays")
        config.write_text(text, encoding="utf-8")

    return prepare


KNOBS: dict[str, Sequence[Variant]] = {
    "queue": [Variant(f"codec queue {ms} ms", queue_delay(1000 * ms)) for ms in (0, 5, 30)],
    "chunks": [Variant(f"chunks of {n}", options={"chunk_frames": n}) for n in (1, 2, 4, 8)],
    "comfort": [Variant(f"comfort {ms} ms", environment={"ORPHEUS_LM_COMFORT_MS": f"{ms}"}) for ms in (150, 600)],
    "lookahead": [Variant(f"lookahead {n} latents of 10", environment={"ORPHEUS_LM_LOOKAHEAD_LATENTS": f"{n}"}) for n in (0, 2, 4, 6, 8)],
    "codec": [Variant("codec on ONNX Runtime", environment={"SNAC_ENGINE": "onnxruntime"})],
    "threads": [
        Variant("LM 1 thread", environment={"ORPHEUS_LM_THREADS": "1"}),
        Variant("LM 2 threads", environment={"ORPHEUS_LM_THREADS": "2"}),
        Variant("codec 1 thread", environment={"SNAC_THREADS": "1"}),
        Variant("LM 1, codec 1", environment={"ORPHEUS_LM_THREADS": "1", "SNAC_THREADS": "1"}),
    ],
}


def merged(rounds: Sequence[Measured], exact: Measured) -> list[dict[str, Any]]:
    """Counts summed, figures' medians, over the rounds."""
    apart = exactness.difference(exact.spoken, rounds[0].spoken)
    rows: list[dict[str, Any]] = []
    for of_rounds in zip(*(found.rows for found in rounds), strict=True):
        row = dict(of_rounds[0])
        for name, value in row.items():
            if isinstance(value, (int, float)):
                values = [of[name] for of in of_rounds]
                row[name] = round(sum(values), 3) if name in SUMS else statistics.median(values)
        row["error_db"] = apart.error_text
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KNOBS, default=list(KNOBS))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--streams", type=int, default=32, help="in each measurement, and at least twice the concurrency")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", default="mixed", help=f"{', '.join(MIXES)}, or a file with one text a line")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="folder")
    args = parser.parse_args()
    plan = Plan(texts_of(args.texts), args.concurrency, args.streams)
    variants = [AS_SHIPPED, *(variant for name in args.only for variant in KNOBS[name])]
    content = results.report({name: value for name, value in vars(args).items() if name != "out"})
    found: dict[str, list[Measured]] = {variant.label: [] for variant in variants}
    for _ in range(args.rounds):
        for variant in variants:
            found[variant.label].append(measured(variant, plan))
    exact = found[AS_SHIPPED.label][0]
    rows = [row for rounds in found.values() for row in merged(rounds, exact)]
    content["rows"] = rows
    content["streams"] = {label: [of.streams for of in rounds] for label, rounds in found.items()}
    results.save_all(args.out / "knobs", content, f"What each setting does, on {results.machine_line(content)}", rows, COLUMNS)


if __name__ == "__main__":
    main()
