"""How far a SNAC decoder sees: which latents a sample depends on, and which part of each layer a window's new samples need.

Both follow from walking back through the layers of snac.layers.Decoder: a kernel-7 convolution; per block a transposed convolution of
kernel 2 s,
stride s and padding ceil(s / 2), a pointwise noise layer, and three residual units of kernel 7 with dilations 1, 3 and 9; at the end a
kernel-7
convolution. The far sight lies in the early, slow layers: of the late ones, which cost most, a window needs little more than its new
samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HALF_KERNEL = 3
RESIDUAL_REACH = HALF_KERNEL * (1 + 3 + 9)


def block_inputs_seen(decoder_rates: Sequence[int], first_sample: int, last_sample: int) -> list[tuple[int, int]]:
    """Per decoder block, first to last: the inputs (first and last, inclusive, not clipped) on which samples first_sample to last_sample
    depend."""
    first, last = first_sample - HALF_KERNEL, last_sample + HALF_KERNEL
    seen: list[tuple[int, int]] = []
    for stride in reversed(decoder_rates):
        first, last = first - RESIDUAL_REACH, last + RESIDUAL_REACH
        # Input i reaches outputs i s - p to i s - p + 2 s - 1.
        padding = (stride + 1) // 2
        first, last = -((2 * stride - 1 - padding - first) // stride), (last + padding) // stride
        seen.insert(0, (first, last))
    return seen


def context_latents(decoder_rates: Sequence[int]) -> int:
    """Latents to each side that a sample can depend on, beyond the latent that it belongs to; the larger side counts."""
    first, last = block_inputs_seen(decoder_rates, 0, math.prod(decoder_rates) - 1)[0]
    return max(HALF_KERNEL - first, last + HALF_KERNEL)


def needed_spans(decoder_rates: Sequence[int], latents: int, first_sample: int, n_samples: int) -> NDArray[np.int64]:
    """int64 [blocks + 1, 2], start and end (exclusive) within a window of so many latents: of each block's input, then of the samples.

    Clipped to the window: at its true borders a layer must see the same zero padding as in a decode of the whole.
    """
    spans: list[tuple[int, int]] = []
    length = latents
    seen = block_inputs_seen(decoder_rates, first_sample, first_sample + n_samples - 1)
    for rate, (first, last) in zip(decoder_rates, seen, strict=True):
        spans.append((max(0, first), min(length, last + 1)))
        length *= rate
    return np.array([*spans, (first_sample, first_sample + n_samples)], np.int64)
