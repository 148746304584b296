"""The promise of the whole project: streamed int16 audio equals the decode of the whole utterance, whatever the chunk size."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from snac_codec.batching import decode_windows
from snac_codec.engines.base import Engine
from snac_codec.engines.torch import TorchEngine
from snac_codec.noise import PERIOD_FRAMES
from snac_codec.receptive_field import context_latents
from snac_codec.tiles import TileInputs
from snac_codec.window import Window, parse_window
from speech_lm.windows import CodecShape, PlannerState, WindowPlanner
from support.whole import whole_audio, whole_decode

POOL = ThreadPoolExecutor(2)


def codes_of(engine: Engine, n_frames: int, seed: int = 0) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, engine.config.codebook_size, (n_frames, 7), dtype=np.int32)


def windows_of(engine: Engine, codes: NDArray[np.int32], chunk_frames: int) -> list[Window]:
    planner, state = WindowPlanner(CodecShape(context_latents(engine.config.decoder_rates))), PlannerState()
    windows: list[Window] = []
    for at in range(0, len(codes), chunk_frames):
        planner.push(state, [tuple(frame) for frame in codes[at : at + chunk_frames].tolist()])
        ended = at + chunk_frames >= len(codes)
        if planner.final_latents(state, state.n_frames, ended) > state.emitted_latents:
            w = planner.plan(state, state.n_frames, ended)
            tensors = {"CODES": w.codes, "EMIT": np.array([w.first_sample, w.n_samples]), "FIRST_FRAME": np.array([w.first_frame])}
            windows.append(parse_window(tensors, engine.config, max_frames=64))
    return windows


def streamed(engine: Engine, codes: NDArray[np.int32], chunk_frames: int) -> NDArray[np.int16]:
    parts: list[NDArray[np.int16]] = []
    for window in windows_of(engine, codes, chunk_frames):
        ((_, part),) = decode_windows(engine, [window], POOL)
        assert not isinstance(part, Exception)
        parts.append(part)
    return np.concatenate(parts)


def assert_same_audio(got: NDArray[np.int16], wanted: NDArray[np.int16]) -> None:
    assert len(got) == len(wanted)
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    assert wanted.std() > 300, "quiet audio could hide a difference"


@pytest.mark.parametrize("chunk_frames", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("n_frames", [1, 2, 3, 4, 5, 6, 9, 13, 20])
def test_pocket_codec(pocket: Engine, pocket_onnx: Engine, n_frames: int, chunk_frames: int) -> None:
    codes = codes_of(pocket, n_frames, seed=n_frames)
    got = streamed(pocket, codes, chunk_frames)
    assert len(got) == 2048 * n_frames
    assert_same_audio(got, whole_decode(pocket_onnx, codes))


def test_a_minute_across_the_borders_of_the_noise_tape(pocket: Engine, pocket_onnx: Engine) -> None:
    n_frames = 703
    assert n_frames > 10 * PERIOD_FRAMES
    codes = codes_of(pocket, n_frames)
    assert_same_audio(streamed(pocket, codes, 8), whole_decode(pocket_onnx, codes))


@pytest.mark.parametrize(("n_frames", "chunk_frames"), [(2, 1), (12, 1), (12, 3), (20, 8)])
def test_snac_24khz_architecture(snac_24khz: Engine, n_frames: int, chunk_frames: int) -> None:
    codes = codes_of(snac_24khz, n_frames)
    assert_same_audio(streamed(snac_24khz, codes, chunk_frames), whole_decode(snac_24khz, codes))


def test_one_frame_of_context_less_would_show(pocket: Engine, pocket_onnx: Engine) -> None:
    """Else the tests above could not fail."""
    codes = codes_of(pocket, 12)
    ((_, short),) = decode_windows(pocket, [Window(codes[4:].reshape(-1), 4, 2048, 2048)], POOL)
    assert not isinstance(short, Exception)
    assert np.abs(short.astype(int) - whole_decode(pocket_onnx, codes)[5 * 2048 : 6 * 2048]).max() > 1


@pytest.mark.parametrize(("first_sample", "n_samples"), [(0, 1), (1, 2047), (511, 2), (5000, 3333), (12287, 1), (0, 12288)])
def test_any_part_of_a_window(pocket: Engine, pocket_onnx: Engine, first_sample: int, n_samples: int) -> None:
    """Also one that begins or ends within a latent."""
    codes = codes_of(pocket, 6)
    ((_, part),) = decode_windows(pocket, [Window(codes.reshape(-1), 0, first_sample, n_samples)], POOL)
    assert_same_length_and_sound(part, whole_decode(pocket_onnx, codes)[first_sample : first_sample + n_samples])


def test_the_noise_depends_on_the_position_in_the_stream(snac_24khz: Engine) -> None:
    codes = codes_of(snac_24khz, 3)
    here, there, a_period_on = (whole_audio(snac_24khz, codes, at) for at in (0, 1, PERIOD_FRAMES))
    np.testing.assert_array_equal(here, a_period_on)
    assert np.abs(here - there).max() > 1e-3


@pytest.mark.parametrize("max_rows", [1, 3, 8])
def test_a_batch_of_mixed_windows_equals_their_solo_decodes(pocket: Engine, checkpoint: Path, max_rows: int) -> None:
    """On an engine with rows, in threads of their own."""
    windows = [w for stream in range(4) for w in windows_of(pocket, codes_of(pocket, 3 + 4 * stream, seed=stream), stream + 1)]
    order: list[int] = np.random.default_rng(0).permutation(len(windows)).tolist()
    mixed = [windows[i] for i in order]
    batched = (
        TorchEngine(checkpoint, pocket.sizes, threads=2, max_rows=max_rows, device="cpu", precision="float32") if max_rows > 1 else pocket
    )
    together = dict(decode_windows(batched, mixed, POOL))
    assert sorted(together) == list(range(len(mixed)))
    for index, window in enumerate(mixed):
        ((_, alone),) = decode_windows(batched, [window], POOL)
        assert_same_length_and_sound(together[index], alone)


def assert_same_length_and_sound(a: Any, b: Any) -> None:
    assert a.shape == b.shape
    assert np.abs(a.astype(int) - b.astype(int)).max() <= 1


def test_a_window_without_new_samples_is_not_decoded(pocket: Engine) -> None:
    class Idle:
        config, sizes, max_rows, calls = pocket.config, pocket.sizes, 1, 1

        def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
            raise AssertionError("nothing to decode")

        def close(self) -> None: ...

    ((index, samples),) = decode_windows(Idle(), [Window(np.zeros(7, np.int32), 0, 0, 0)], POOL)
    assert index == 0
    assert not isinstance(samples, Exception)
    assert samples.dtype == np.int16
    assert len(samples) == 0


def test_a_forward_that_fails_costs_its_own_windows_only(pocket: Engine) -> None:
    class Failing:
        config, sizes, max_rows, calls = pocket.config, pocket.sizes, 1, 2

        def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
            if inputs.position[0] == 8:
                raise RuntimeError("out of memory")
            return pocket.decode(inputs)

        def close(self) -> None: ...

    windows = [Window(codes_of(pocket, n).reshape(-1), first, 0, 2048 * n) for n, first in ((1, 0), (2, 2), (3, 4))]
    results = dict(decode_windows(Failing(), windows, POOL))
    assert isinstance(results[1], RuntimeError)
    assert [len(results[i]) for i in (0, 2)] == [2048, 6144]  # pyright: ignore[reportArgumentType]
