"""What Python costs around the codec's forwards, and the forwards themselves: `make micro`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from embedded.repository import parameters
from embedded.running import REPOSITORY
from numpy.typing import NDArray
from snac_codec.batching import decode_windows, forwards_of
from snac_codec.config import CodecConfig, load_config
from snac_codec.engines import create_engine
from snac_codec.engines.base import Engine
from snac_codec.pcm import to_int16
from snac_codec.settings import load_settings
from snac_codec.tiles import TileInputs, cut, tile_inputs
from snac_codec.window import Window

Benchmark = Callable[..., object]
SETTINGS = load_settings(parameters(REPOSITORY / "snac_decoder"), {})
FOLDER = SETTINGS.path(REPOSITORY / "snac_decoder" / "1")
CONFIG = load_config(FOLDER)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """As shipped."""
    made = create_engine(SETTINGS, FOLDER)
    yield made
    made.close()


class NoForward:
    """An engine that answers at once: what is left is ours."""

    def __init__(self, config: CodecConfig, max_rows: int) -> None:
        self.config, self.sizes, self.max_rows, self.calls = config, SETTINGS.tile_latents, max_rows, 2

    def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
        rows, _, latents = inputs.codes.shape
        return np.zeros((rows, latents * self.config.samples_per_latent), np.float32)

    def close(self) -> None:
        pass


def windows(count: int, new_frames: int) -> list[Window]:
    """Of as many streams, each with its context and `new_frames` new frames."""
    rng = np.random.default_rng(0)
    frames = new_frames + 5
    codes = rng.integers(0, CONFIG.codebook_size, (count, 7 * frames)).astype(np.int32)
    return [Window(of, 20, 2 * CONFIG.samples_per_frame, new_frames * CONFIG.samples_per_frame) for of in codes]


def decode_all(engine: Engine, batch: Sequence[Window]) -> int:
    """-> samples."""
    with ThreadPoolExecutor(engine.calls) as pool:
        results = dict(decode_windows(engine, batch, pool))
    failed = [result for result in results.values() if isinstance(result, Exception)]
    assert not failed
    return sum(len(result) for result in results.values() if not isinstance(result, Exception))


@pytest.mark.parametrize("count", [1, 16, 64])
def test_cutting_and_grouping(benchmark: Benchmark, count: int) -> None:
    """Windows of 1 to 8 new frames into tiles, and tiles of one size together."""
    batch = [window for frames in range(1, 9) for window in windows(-(-count // 8), frames)][:count]

    def groups() -> int:
        tiles = [tile for number, window in enumerate(batch) for tile in cut(number, window, CONFIG, SETTINGS.tile_latents)]
        return len(forwards_of(tiles, max_rows=32))

    assert benchmark(groups)


@pytest.mark.parametrize("rows", [1, 8, 32])
def test_inputs_of_a_forward(benchmark: Benchmark, rows: int) -> None:
    batch = windows(rows, 4)
    tiles = [tile for number, window in enumerate(batch) for tile in cut(number, window, CONFIG, (16,))]
    assert benchmark(tile_inputs, tiles, batch, CONFIG)


@pytest.mark.parametrize("count", [1, 16])
def test_a_batch_without_its_forwards(benchmark: Benchmark, count: int) -> None:
    batch = windows(count, 8)
    assert benchmark(decode_all, NoForward(CONFIG, max_rows=32), batch) == count * 8 * CONFIG.samples_per_frame


@pytest.mark.parametrize(("count", "new_frames"), [(1, 1), (1, 8), (4, 1), (4, 8)])
def test_a_batch(benchmark: Benchmark, engine: Engine, count: int, new_frames: int) -> None:
    """As shipped, forwards included."""
    batch = windows(count, new_frames)
    assert benchmark(decode_all, engine, batch) == count * new_frames * CONFIG.samples_per_frame


def test_samples_to_int16(benchmark: Benchmark) -> None:
    audio = np.random.default_rng(0).uniform(-1.2, 1.2, 8 * CONFIG.samples_per_frame).astype(np.float32)
    assert len(np.asarray(benchmark(to_int16, audio))) == len(audio)
