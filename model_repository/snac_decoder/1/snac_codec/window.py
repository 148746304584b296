"""A window as it comes in, checked: what a caller can get wrong is found here, request by request, so that batch mates are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .config import CODES_PER_FRAME, CodecConfig


class InvalidWindow(ValueError):
    """The message names the tensor and the value."""


@dataclass(frozen=True)
class Window:
    """codes: int32 [7 * n_frames] in slot order; samples [first_sample, first_sample + n_samples) of its decode are wanted."""

    codes: NDArray[np.int32]
    first_frame: int
    first_sample: int
    n_samples: int

    @property
    def n_frames(self) -> int:
        return len(self.codes) // CODES_PER_FRAME


def parse_window(tensors: Mapping[str, NDArray[Any]], config: CodecConfig, max_frames: int) -> Window:
    """tensors: CODES, EMIT and FIRST_FRAME of one request. Raises InvalidWindow."""
    codes = np.ascontiguousarray(_tensor(tensors, "CODES").reshape(-1), np.int32)
    if not len(codes) or len(codes) % CODES_PER_FRAME:
        raise InvalidWindow(f"CODES must hold whole frames of {CODES_PER_FRAME} codes, not {len(codes)} values")
    n_frames = len(codes) // CODES_PER_FRAME
    if n_frames > max_frames:
        raise InvalidWindow(f"CODES holds {n_frames} frames; this server decodes at most {max_frames} at once")
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= config.codebook_size:
        raise InvalidWindow(f"CODES must be from 0 to {config.codebook_size - 1}; found {low if low < 0 else high}")
    emit = _tensor(tensors, "EMIT").reshape(-1)
    if len(emit) != 2:
        raise InvalidWindow(f"EMIT must hold the first sample and the number of samples, not {len(emit)} values")
    first_sample, n_samples = map(int, emit)
    whole = n_frames * config.samples_per_frame
    if first_sample < 0 or n_samples < 0 or first_sample + n_samples > whole:
        raise InvalidWindow(f"EMIT [{first_sample}, {n_samples}] lies outside the window's {whole} samples")
    position = _tensor(tensors, "FIRST_FRAME").reshape(-1)
    if len(position) != 1 or position[0] < 0:
        raise InvalidWindow("FIRST_FRAME must be one number, 0 or more")
    return Window(codes, int(position[0]), first_sample, n_samples)


def _tensor(tensors: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    array = tensors.get(name)
    if array is None:
        raise InvalidWindow(f"{name} is missing")
    return array
