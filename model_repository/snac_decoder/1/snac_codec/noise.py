"""The noise tape: what SNAC's noise blocks multiply with, fixed instead of drawn.

SNAC calls `torch.randn` in each noise block, so that no two decodes agree and no stream could equal its whole decode. The tape is one fixed
Gaussian sequence per decoder block, indexed by the absolute position in the stream; the same position gets the same noise whatever the
window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PERIOD_FRAMES = 64
"""The tape repeats after 5.46 s at 24 kHz: far longer than the ear keeps noise in mind, and under a megabyte."""
SEED = 24_000


def noise_tape(decoder_rates: Sequence[int], latents_per_frame: int) -> list[NDArray[np.float32]]:
    """Per decoder block: float32 [PERIOD_FRAMES, values per frame at the block's output rate].

    RandomState's stream is frozen by NumPy (NEP 19), so the tape is the same everywhere and for ever.
    """
    source = np.random.RandomState(SEED)
    return [
        source.standard_normal((PERIOD_FRAMES, latents_per_frame * math.prod(decoder_rates[: block + 1]))).astype(np.float32)
        for block in range(len(decoder_rates))
    ]


def tape_rows(first_frame: int, n_frames: int) -> NDArray[np.int64]:
    """Rows of the tape for n_frames frames from absolute frame first_frame on."""
    return (first_frame + np.arange(n_frames)) % PERIOD_FRAMES
