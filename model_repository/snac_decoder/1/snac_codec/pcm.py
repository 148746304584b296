"""Float samples to 16-bit PCM."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FULL_SCALE = 32767


def to_int16(audio: NDArray[Any]) -> NDArray[np.int16]:
    """float [n] in -1 to 1 -> int16 [n]: rounded to the nearest step, clamped outside."""
    return np.rint(np.clip(audio, -1.0, 1.0) * FULL_SCALE).astype(np.int16)
