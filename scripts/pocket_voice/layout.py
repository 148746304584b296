"""How codes lie in time: samples, latents, frames, and the flat order of slots that Orpheus uses (canopyai/Orpheus-TTS, decoder.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 24_000
HOP = 512  # samples of one latent
LATENTS_PER_FRAME = 4
FRAME = HOP * LATENTS_PER_FRAME  # 2048 samples
F0_STEP = 256  # samples of one pitch value in the spoken corpus

SLOTS = 7
LEVEL_SLOTS = ([0], [1, 4], [2, 3, 5, 6])
# The middle of the span of each slot, in samples from the frame's start (level 0 spans 2048 samples, level 1 1024, level 2 512).
SLOT_CENTRES = np.array([1024, 512, 256, 768, 1536, 1280, 1792])


def flatten(levels: list[npt.NDArray[np.integer[Any]]]) -> npt.NDArray[np.int16]:
    """Codes per level, int [n], [2n], [4n] -> int16 [n, 7]."""
    frames = np.empty((len(levels[0]), SLOTS), np.int16)
    for codes, slots in zip(levels, LEVEL_SLOTS, strict=True):
        frames[:, slots] = codes.reshape(-1, len(slots))
    return frames


def unflatten(frames: npt.NDArray[np.integer[Any]]) -> list[npt.NDArray[np.integer[Any]]]:
    """int [n, 7] -> codes per level, int [n], [2n], [4n]."""
    return [np.ascontiguousarray(frames[:, slots]).reshape(-1) for slots in LEVEL_SLOTS]
