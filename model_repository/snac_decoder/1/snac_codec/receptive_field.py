"""How far a SNAC decoder sees: on which latents a sample depends.

It follows from walking back through the layers of snac.layers.Decoder: a kernel-7 convolution; per block a transposed convolution of kernel
2 s, stride s and padding ceil(s / 2), a pointwise noise layer, and three residual units of kernel 7 with dilations 1, 3 and 9; at the end a
kernel-7 convolution. The far sight lies in the early, slow layers: of the late ones, which cost most, a window needs little more than its
new samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

HALF_KERNEL = 3
RESIDUAL_DILATIONS = (1, 3, 9)
RESIDUAL_REACH = HALF_KERNEL * sum(RESIDUAL_DILATIONS)


def latents_seen(decoder_rates: Sequence[int], first_sample: int, last_sample: int) -> tuple[int, int]:
    """The first and the last latent (inclusive, not clipped) on which samples first_sample to last_sample depend."""
    first, last = first_sample - HALF_KERNEL, last_sample + HALF_KERNEL
    for stride in reversed(decoder_rates):
        first, last = first - RESIDUAL_REACH, last + RESIDUAL_REACH
        # Input i reaches outputs i s - p to i s - p + 2 s - 1.
        padding = (stride + 1) // 2
        first, last = -((2 * stride - 1 - padding - first) // stride), (last + padding) // stride
    return first - HALF_KERNEL, last + HALF_KERNEL


def context_latents(decoder_rates: Sequence[int]) -> int:
    """Latents to each side that a sample can depend on, beyond the latent that it belongs to; the larger side counts."""
    first, last = latents_seen(decoder_rates, 0, math.prod(decoder_rates) - 1)
    return max(-first, last)
