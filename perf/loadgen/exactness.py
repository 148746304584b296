"""How far streamed audio is from the whole utterance's decode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from orpheus_client import Client, SpeechOptions

Audio = NDArray[np.int16]
READINGS = 4


@dataclass(frozen=True)
class Difference:
    """lost_samples: of the whole, how many never came. error_db: power of the difference over that of the speech, where both have
    samples; None where they are equal."""

    lost_samples: int
    error_db: float | None

    @property
    def error_text(self) -> str:
        """For tables: decibels, or `none`."""
        return "none" if self.error_db is None else f"{self.error_db:.1f}"


def spoken(url: str, texts: Sequence[str], options: SpeechOptions, readings: int = READINGS) -> list[Audio]:
    """The first different texts, one at a time, so that the same seed gives the same codes."""
    different = list(dict.fromkeys(texts))[:readings]
    with Client(url) as client:
        return [client.synthesize(text, **{**options, "seed": seed}).samples for seed, text in enumerate(different)]


def difference(whole: Sequence[Audio], streamed: Sequence[Audio], lost_at_start: int = 0) -> Difference:
    """Of utterances with the same codes. Raises ValueError where a stream is longer than the whole."""
    lost, signal, noise = 0, 0.0, 0.0
    for exact, heard in zip(whole, streamed, strict=True):
        if lost_at_start + len(heard) > len(exact):
            raise ValueError(f"{len(heard)} samples from sample {lost_at_start} on do not fit into {len(exact)}")
        part = exact[lost_at_start : lost_at_start + len(heard)].astype(np.float64)
        lost += len(exact) - len(heard)
        signal += float(np.sum(part**2))
        noise += float(np.sum((part - heard) ** 2))
    return Difference(lost, 10 * math.log10(noise / signal) if noise and signal else None)
