"""How others stream and how we do, on the same models, machine and traffic, in one run.

    make peers

whole    the utterance is generated to its end, then decoded (what Auralis does with each sentence)
prefix   one request after another; everything so far is decoded anew each time (the shape of CosyVoice 2 on Triton)
sliding  every frame decodes the last four and sends the second one's samples (the reference decoder of Orpheus)
ours     exact windows, sized by the listener's buffer, batched

Each gets a server of its own, with the peer's way of streaming in the place of our ensemble (perf/peers/peer_tts) and the same language
model and codec behind it. `codec s/s` is seconds in the codec's forwards for one second of audio that was sent; `error` is the power of the
difference from the whole utterance's decode over that of the speech, on texts read alone with fixed seeds. The sliding window is
given our noise, the same for a frame whenever it is decoded; the reference draws it anew each time, which adds to its error.
Written: peers.json (every stream), peers.csv, peers.md, peers.png.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedded.repository import set_parameters
from loadgen import exactness, plots, results
from loadgen.texts import MIXES, texts_of
from loadgen.variants import Measured, Plan, Variant, measured
from orpheus_client.wire import SAMPLE_RATE_HZ

PEER = Path(__file__).parent / "peers" / "peer_tts"
WHOLE_UTTERANCES = {"SNAC_MAX_FRAMES": "512"}
SLIDING_LOST_AT_START = 2048  # its first frame
COLUMNS = {
    "variant": "way",
    "concurrency": "streams at a time",
    "first_audio_p50_ms": "first audio p50, ms",
    "first_audio_p95_ms": "p95, ms",
    "streams_with_underruns": "ran dry",
    "streams": "of",
    "failed": "failed",
    "times_real_time": "times real time",
    "codec_s_per_audio_s": "codec s/s",
    "lost_ms": "lost of each utterance, ms",
    "error_db": "error, dB",
}


def in_the_place_of_the_ensemble(method: str) -> Callable[[Path], None]:
    def prepare(repository: Path) -> None:
        shutil.rmtree(repository / "orpheus_tts")
        shutil.copytree(PEER, repository / "orpheus_tts", ignore=shutil.ignore_patterns("__pycache__"))
        set_parameters(repository / "orpheus_tts", {"method": method})

    return prepare


VARIANTS = (
    Variant("whole", in_the_place_of_the_ensemble("whole"), WHOLE_UTTERANCES),
    Variant("prefix", in_the_place_of_the_ensemble("prefix"), WHOLE_UTTERANCES),
    Variant("sliding", in_the_place_of_the_ensemble("sliding"), lost_at_start=SLIDING_LOST_AT_START),
    Variant("ours"),
)


def exact_columns(variant: Variant, found: Measured, whole: Measured) -> dict[str, Any]:
    apart = exactness.difference(whole.spoken, found.spoken, variant.lost_at_start)
    return {
        "lost_ms": round(1000 * apart.lost_samples / SAMPLE_RATE_HZ / len(found.spoken), 1),
        "error_db": apart.error_text,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--streams", type=int, default=24, help="in each measurement, and at least twice the concurrency")
    parser.add_argument("--texts", default="medium", help=f"{', '.join(MIXES)}, or a file with one text a line")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="folder")
    args = parser.parse_args()
    plan = Plan(texts_of(args.texts), args.concurrency, args.streams)
    content = results.report({"texts": args.texts, "concurrency": args.concurrency, "streams": args.streams})
    found = [measured(variant, plan) for variant in VARIANTS]
    whole = found[0]
    rows = [row | exact_columns(variant, of, whole) for variant, of in zip(VARIANTS, found, strict=True) for row in of.rows]
    content["rows"] = rows
    content["streams"] = {variant.label: of.streams for variant, of in zip(VARIANTS, found, strict=True)}
    title = f"Ways to stream, on {results.machine_line(content)}"
    results.save_all(args.out / "peers", content, title, rows, COLUMNS)
    plots.bars(panels(rows, args.concurrency), title, args.out / "peers.png")


def panels(rows: list[dict[str, Any]], concurrency: list[int]) -> dict[str, dict[str, float]]:
    few, many = min(concurrency), max(concurrency)

    def of(name: str, at: int) -> dict[str, float]:
        return {row["variant"]: row[name] or 0.0 for row in rows if row["concurrency"] == at}

    return {
        f"first audio at {few}, median, ms": of("first_audio_p50_ms", few),
        f"first audio at {many}, median, ms": of("first_audio_p50_ms", many),
        f"streams of {rows[-1]['streams']} that ran dry at {many}": of("streams_with_underruns", many),
        f"codec seconds per second at {many}": of("codec_s_per_audio_s", many),
    }


if __name__ == "__main__":
    main()
