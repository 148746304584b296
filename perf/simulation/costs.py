"""What the parts of a server cost on one kind of machine: all that the simulation knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Seconds by size: linear between the points, and beyond the last as between the last two. points: (size, seconds), ascending."""

    points: Sequence[tuple[float, float]]

    def __call__(self, size: float) -> float:
        sizes, seconds = zip(*self.points, strict=True)
        if size <= sizes[-1] or len(sizes) == 1:
            return float(np.interp(size, sizes, seconds))
        slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
        return seconds[-1] + slope * (size - sizes[-1])


@dataclass(frozen=True)
class Costs:
    """All times on an otherwise idle machine.

    step_s: of the language model, by streams in the step. step_threads: cores that it keeps busy. prompt_token_s: more for each token of a
    prompt. forward_s: of the codec, for each size of tiles (latents), by tiles in it. max_rows: tiles in a forward; calls: forwards side by
    side, each on one core. window_core_s: of one core for everything around a window beside both models (Triton, Python, gRPC, the client);
    window_delay_s: and what passes there without work, from wake to wake. cores: that share all this; 1 for a GPU.
    """

    step_s: Curve
    step_threads: int
    prompt_token_s: float
    forward_s: Mapping[int, Curve]
    max_rows: int
    calls: int
    window_core_s: float
    window_delay_s: float
    cores: int

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        return tuple(sorted(self.forward_s))
