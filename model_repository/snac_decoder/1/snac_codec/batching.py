"""A batch of windows of any streams: cut into tiles, tiles of one size together, each window's samples put together again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed

import numpy as np
from numpy.typing import NDArray

from .engines.base import Engine
from .pcm import to_int16
from .tiles import Tile, cut, tile_inputs
from .window import Window


def forwards_of(tiles: Sequence[Tile], max_rows: int) -> list[list[Tile]]:
    """Tiles to decode together: of one size, at most max_rows, in order of arrival."""
    by_size: dict[int, list[Tile]] = defaultdict(list)
    forwards: list[list[Tile]] = []
    for tile in tiles:
        group = by_size[tile.n_latents]
        if not group:
            forwards.append(group)
        group.append(tile)
        if len(group) == max_rows:
            by_size[tile.n_latents] = []
    return forwards


def decode_windows(engine: Engine, windows: Sequence[Window], pool: Executor) -> Iterator[tuple[int, NDArray[np.int16] | Exception]]:
    """Each window's index with its new samples, int16 [n_samples], or with the error that a forward raised, as soon as there is one or the
    other.

    pool: runs the forwards. Side by side on one core each they end sooner than one after another on all.
    """
    missing: dict[int, list[Tile]] = {}
    for index, window in enumerate(windows):
        missing[index] = cut(index, window, engine.config, engine.sizes)
        if not missing[index]:
            yield index, np.zeros(0, np.int16)
    made: dict[Tile, NDArray[np.float32]] = {}
    forwards: dict[Future[None], list[Tile]] = {
        pool.submit(_decode, engine, windows, tiles, made): tiles
        for tiles in forwards_of([tile for tiles in missing.values() for tile in tiles], engine.max_rows)
    }
    for forward in as_completed(forwards):
        error = forward.exception()
        for index in dict.fromkeys(tile.window for tile in forwards[forward]):
            if index not in missing:  # answered already
                continue
            if isinstance(error, Exception):
                del missing[index]
                yield index, error
            elif all(tile in made for tile in missing[index]):
                yield index, _join(windows[index], missing.pop(index), made, engine.config.samples_per_latent)


def _decode(engine: Engine, windows: Sequence[Window], tiles: list[Tile], made: dict[Tile, NDArray[np.float32]]) -> None:
    """tiles: of one size."""
    audio = engine.decode(tile_inputs(tiles, windows, engine.config))
    made.update(zip(tiles, audio, strict=True))


def _join(window: Window, tiles: list[Tile], made: dict[Tile, NDArray[np.float32]], samples_per_latent: int) -> NDArray[np.int16]:
    audio = np.concatenate([made.pop(tile) for tile in tiles])
    first = window.first_sample - tiles[0].first_latent * samples_per_latent
    return to_int16(audio[first : first + window.n_samples])
