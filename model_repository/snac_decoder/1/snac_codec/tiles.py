"""Tiles: the fixed-size pieces in which a window's new samples are decoded.

Engines are fast on shapes that they know beforehand, windows come in any length. So a window's new latents are covered by tiles of a few
sizes. A tile of n latents carries as many latents more to each side as its samples depend on (`reach`), and says which of them exist: where
the window ends, a layer must see exactly the zeros that SNAC pads with, so the network sets everything outside to zero in front of each
convolution. Filling a tile up is therefore exact, which filling up a plain decode would not be. Tiles are independent of each other: those
of any windows may share a forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .config import CODES_PER_FRAME, SLOTS_OF_LEVEL, CodecConfig
from .receptive_field import HALF_KERNEL, RESIDUAL_REACH
from .window import Window

OVERHEAD_LATENTS = 5.5
"""What a tile costs beside its new latents, in latents: its context (pocket codec and SNAC 24 kHz on a processor, docs/log.md)."""


@dataclass(frozen=True)
class BlockReach:
    """How far a tile extends beyond its new latents to each side within one decoder block: `taken` values at the block's input rate, `made`
    values behind its transposed convolution, which makes `before` and `after` more than those."""

    taken: int
    made: int
    before: int
    after: int


def block_reaches(decoder_rates: Sequence[int]) -> list[BlockReach]:
    """Of each block, first to last. A transposed convolution of stride s and padding p makes, of each input and the one before, the values
    from s i - p on (engines/network.py: Spread)."""
    reach, blocks = HALF_KERNEL, list[BlockReach]()
    for stride in reversed(decoder_rates):
        padding = (stride + 1) // 2
        made = reach + RESIDUAL_REACH
        reach = -(-(made + padding) // stride)
        before = stride * (reach - 1) + padding - made
        blocks.insert(0, BlockReach(reach, made, before, stride * (2 * reach - 1) - 2 * made - before))
    return blocks


def tile_reach(decoder_rates: Sequence[int]) -> int:
    """Latents that a tile carries to each side of its new ones."""
    return block_reaches(decoder_rates)[0].taken + HALF_KERNEL


@dataclass(frozen=True)
class Tile:
    """latents [first_latent, first_latent + n_latents) of a window; the last ones may lie beyond its end."""

    window: int
    first_latent: int
    n_latents: int


@lru_cache(maxsize=4096)
def cover(n_latents: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of the cheapest tiles that hold n_latents together, largest first."""
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for n in range(1, n_latents + 1):
        options = [(size, best[max(0, n - size)]) for size in sizes]
        best.append(min((cost + size + OVERHEAD_LATENTS, (size, *rest)) for size, (cost, rest) in options))
    return tuple(sorted(best[n_latents][1], reverse=True))


def cut(number: int, window: Window, config: CodecConfig, sizes: tuple[int, ...]) -> list[Tile]:
    """The tiles of a window's new samples; none where it has none. number: the window's, noted in its tiles."""
    first = window.first_sample // config.samples_per_latent
    end = -(-(window.first_sample + window.n_samples) // config.samples_per_latent)
    tiles: list[Tile] = []
    for size in cover(end - first, sizes) if window.n_samples else ():
        tiles.append(Tile(number, first, size))
        first += size
    return tiles


@dataclass(frozen=True)
class TileInputs:
    """What a forward of B tiles of n latents reads.

    codes: int32 [B, 3, n + 2 reach], each level's codes repeated to the rate of latents, zeros outside the window.
    position: int64 [B], latents of the stream before the tile's first new one.
    valid: int64 [B, 2], first and end of the latents that exist.
    """

    codes: NDArray[np.int32]
    position: NDArray[np.int64]
    valid: NDArray[np.int64]


def tile_inputs(tiles: Sequence[Tile], windows: Sequence[Window], config: CodecConfig) -> TileInputs:
    """tiles: of one size."""
    reach, n = tile_reach(config.decoder_rates), tiles[0].n_latents
    codes = np.zeros((len(tiles), len(SLOTS_OF_LEVEL), n + 2 * reach), np.int32)
    position, valid = np.empty(len(tiles), np.int64), np.empty((len(tiles), 2), np.int64)
    for row, tile in enumerate(tiles):
        window = windows[tile.window]
        latents = window_latents(window.codes, config)
        start = tile.first_latent - reach  # of the tile, in latents of the window
        first, end = max(0, start), min(latents.shape[1], start + codes.shape[2])
        codes[row, :, first - start : end - start] = latents[:, first:end]
        position[row] = window.first_frame * config.latents_per_frame + tile.first_latent
        valid[row] = first - start, end - start
    return TileInputs(codes, position, valid)


def window_latents(codes: NDArray[np.int32], config: CodecConfig) -> NDArray[np.int32]:
    """int32 [7 * n_frames] in slot order -> [3, latents]: each level's codes, repeated to the rate of latents."""
    frames = codes.reshape(-1, CODES_PER_FRAME)
    levels = [np.repeat(frames[:, slots].reshape(-1), stride) for slots, stride in zip(SLOTS_OF_LEVEL, config.vq_strides, strict=True)]
    return np.stack(levels)
