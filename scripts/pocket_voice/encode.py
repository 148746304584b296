"""Turn the spoken corpus into training rows for the language model.

    python -m pocket_voice.encode --speech work/speech --codec work/codec --out work/codes

One `.npz` for each shard:
    codes      int16 [n_frames, 7]  all utterances end to end, in the slot order of layout.py
    frames     int32 [n]            frames of each utterance
    phonemes   str [n]
    spoken     int16 [n_frames, 7]  which character of the phoneme string sounds in the middle of each code's span
Shards already there are kept; `--reverse` starts from the last, for a second process beside the first.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pocket_voice.codec import load_codec, quantize
from pocket_voice.layout import F0_STEP, FRAME, SLOT_CENTRES, SLOTS, flatten
from pocket_voice.segments import shard_paths
from pocket_voice.teacher import DURATION_UNIT


def sounding_characters(durations: npt.NDArray[np.integer[Any]], n_frames: int) -> npt.NDArray[np.int16]:
    """Which phoneme character sounds at each code, int16 [n_frames, 7].

    `durations` int [n_characters + 2], in DURATION_UNIT: the teacher's pads before and after count to their neighbours.
    """
    ends = np.cumsum(durations, dtype=np.int64) * DURATION_UNIT
    centres = np.arange(n_frames)[:, None] * FRAME + SLOT_CENTRES
    at = np.searchsorted(ends, centres.reshape(-1), side="right") - 1
    return np.clip(at, 0, len(durations) - 3).astype(np.int16).reshape(n_frames, SLOTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--codec", type=Path, required=True, help="folder with snac/ and encoder.safetensors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--reverse", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    model, encoder = load_codec(args.codec)
    args.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(shard_paths(args.speech), reverse=args.reverse):
        target: Path = args.out / path.name
        if target.exists():
            continue
        shard = np.load(path)
        pcm, f0, starts, phonemes, durations = (shard[key] for key in ("pcm", "f0", "starts", "phonemes", "durations"))
        codes: list[npt.NDArray[np.int16]] = []
        spoken: list[npt.NDArray[np.int16]] = []
        durations_used = 0
        for first, last, text in zip(starts[:-1], starts[1:], phonemes, strict=True):
            audio = torch.from_numpy(pcm[first:last].astype(np.float32) / 32768)[None]
            pitch = torch.from_numpy(f0[first // F0_STEP : last // F0_STEP])[None]
            with torch.inference_mode():
                levels = quantize(model, encoder(audio, pitch)).codes
            codes.append(flatten([level[0].numpy() for level in levels]))
            lasts = durations[durations_used : durations_used + len(text) + 2]
            durations_used += len(lasts)
            spoken.append(sounding_characters(lasts, len(codes[-1])))
        counts = np.asarray([len(frames) for frames in codes], np.int32)
        temporary = target.with_suffix(".part.npz")
        np.savez_compressed(temporary, codes=np.concatenate(codes), frames=counts, phonemes=phonemes, spoken=np.concatenate(spoken))
        temporary.replace(target)
        print(path.name, len(phonemes), flush=True)


if __name__ == "__main__":
    main()
