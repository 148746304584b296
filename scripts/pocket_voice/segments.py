"""Random aligned segments of the spoken corpus, for the codec's training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pocket_voice.layout import F0_STEP, FRAME, HOP

MARGIN_LATENTS = 8  # context that the encoder sees on each side of a segment
MARGIN = MARGIN_LATENTS * HOP
QUIETEST_PEAK = 600  # of 32768: segments below are silence


def shard_paths(folder: Path) -> list[Path]:
    """`0000.npz`, `0001.npz`, ... in order; half-written shards have another name."""
    return sorted(folder.glob("[0-9]*[0-9].npz"))


class Segments:
    """Holds all shards in memory (24 h of speech: 4.2 GB)."""

    def __init__(self, folder: Path, frames: int, seed: int) -> None:
        shards = [np.load(path) for path in shard_paths(folder)]
        if not shards:
            raise FileNotFoundError(f"no shards in {folder}")
        self._pcm = [shard["pcm"] for shard in shards]
        self._f0 = [shard["f0"] for shard in shards]
        self._length, self._rng = frames * FRAME, np.random.default_rng(seed)
        sizes = np.array([len(pcm) for pcm in self._pcm], np.float64)
        self._weights = sizes / sizes.sum()

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """-> audio float32 [size, MARGIN + frames * 2048 + MARGIN], f0_hz float32 [size, the same / 256]."""
        audio: list[npt.NDArray[Any]] = []
        pitch: list[npt.NDArray[Any]] = []
        while len(audio) < size:
            shard = self._rng.choice(len(self._pcm), p=self._weights)
            last_frame = (len(self._pcm[shard]) - self._length) // FRAME - 2
            first = int(self._rng.integers(2, last_frame)) * FRAME - MARGIN
            end = first + self._length + 2 * MARGIN
            cut = self._pcm[shard][first:end]
            if np.abs(cut).max() < QUIETEST_PEAK:
                continue
            audio.append(cut.astype(np.float32) / 32768)
            pitch.append(self._f0[shard][first // F0_STEP : end // F0_STEP])
        return torch.from_numpy(np.stack(audio)), torch.from_numpy(np.stack(pitch))
