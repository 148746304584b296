from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snac_codec.batching import forwards_of
from snac_codec.config import CodecConfig
from snac_codec.engines.rows import pad_rows, row_counts
from snac_codec.tiles import OVERHEAD_LATENTS, Tile, cover, cut, tile_inputs, window_latents
from snac_codec.window import Window

CONFIG = CodecConfig(24000, (8, 8, 4, 2), (4, 2, 1), 512, None, True)
SIZES = (2, 4, 8, 16, 32)


@given(st.integers(1, 300))
def test_tiles_cover_all_and_little_more(n_latents: int) -> None:
    sizes = cover(n_latents, SIZES)
    assert sum(sizes) >= n_latents
    assert sum(sizes[:-1]) < n_latents, "no tile too many"


@pytest.mark.parametrize("n_latents", range(1, 40))
def test_no_other_tiles_would_be_cheaper(n_latents: int) -> None:
    def cost(sizes: tuple[int, ...]) -> float:
        return sum(size + OVERHEAD_LATENTS for size in sizes)

    others = (sizes for count in range(1, 4) for sizes in itertools.combinations_with_replacement(SIZES, count) if sum(sizes) >= n_latents)
    assert cost(cover(n_latents, SIZES)) <= min(map(cost, others))


def test_slots_become_levels() -> None:
    """Orpheus's order: level 0 in slot 0, level 1 in slots 1 and 4, level 2 in slots 2, 3, 5 and 6."""
    levels = window_latents(np.arange(14, dtype=np.int32), CONFIG)
    assert levels.tolist() == [[0] * 4 + [7] * 4, [1, 1, 4, 4, 8, 8, 11, 11], [2, 3, 5, 6, 9, 10, 12, 13]]


def test_a_tile_knows_its_place_and_what_exists_around_it() -> None:
    window = Window(np.arange(14, dtype=np.int32), first_frame=5, first_sample=512 * 3 + 7, n_samples=512 * 4)
    tiles = cut(0, window, CONFIG, SIZES)
    assert [(t.first_latent, t.n_latents) for t in tiles] == [(3, 8)], "five latents are touched, eight of them one tile"
    inputs = tile_inputs(tiles, [window], CONFIG)
    assert inputs.position.tolist() == [5 * 4 + 3]
    assert inputs.valid.tolist() == [[7, 15]]
    assert inputs.codes.shape == (1, 3, 28)
    np.testing.assert_array_equal(inputs.codes[0, :, 7:15], window_latents(window.codes, CONFIG))
    assert not inputs.codes[0, :, :7].any()
    assert not inputs.codes[0, :, 15:].any()


def test_tiles_of_one_size_share_a_forward() -> None:
    tiles = [Tile(i, 0, size) for i, size in enumerate((8, 4, 8, 8, 4, 8, 16))]
    groups = [[tile.window for tile in group] for group in forwards_of(tiles, max_rows=3)]
    assert groups == [[0, 2, 3], [1, 4], [5], [6]]


def test_rows_are_filled_up_to_a_power_of_two() -> None:
    assert [row_counts(n) for n in (1, 2, 6, 32)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8, 16, 32)]
    window = Window(np.arange(14, dtype=np.int32), 0, 0, 512)
    inputs = tile_inputs([Tile(0, at, 2) for at in range(3)], [window], CONFIG)
    full = pad_rows(inputs, row_counts(8))
    assert full.position.tolist() == [0, 1, 2, 2]
    np.testing.assert_array_equal(full.codes[3], inputs.codes[2])
    assert pad_rows(full, row_counts(8)) is full
