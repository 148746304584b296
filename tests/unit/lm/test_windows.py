"""The windows of a stream against a synthetic codec that is as far-sighted as a real one is: each latent is a hash of every code in
reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from speech_lm.framing import Frame
from speech_lm.windows import CodecShape, PlannerState, Window, WindowPlanner, closing_window

SHAPE = CodecShape(context_latents=10, latents_per_frame=4, samples_per_latent=512)


def frames_of(n: int, seed: int = 0) -> list[Frame]:
    rng = np.random.default_rng(seed)
    return [tuple(row) for row in rng.integers(0, 4096, (n, 7)).tolist()]


def far_sighted_decode(codes: NDArray[np.int32], first_frame: int, context: int) -> NDArray[np.int64]:
    """One value per latent, which depends on every latent within `context` of it and on its absolute position."""
    frames = codes.reshape(-1, 7).astype(np.int64)
    weights = np.array([3, 5, 7, 11, 13, 17, 19])
    latents = np.concatenate([[(frame * weights).sum() * 31 + k for k in range(4)] for frame in frames]) + 1_000_003 * (
        np.arange(4 * len(frames)) + 4 * first_frame
    )
    return np.array(
        [
            np.dot(part := latents[max(0, i - context) : i + context + 1], np.arange(1, len(part) + 1) ** 2) % 1_000_000_007
            for i in range(len(latents))
        ]
    )


def emitted(windows: list[Window]) -> NDArray[np.int64]:
    parts: list[NDArray[np.int64]] = []
    for w in windows:
        latents = far_sighted_decode(w.codes, w.first_frame, SHAPE.context_latents)
        first, count = w.first_sample // 512, w.n_samples // 512
        assert first + count <= len(latents)
        parts.append(latents[first : first + count])
    return np.concatenate(parts)


def stream(frames: list[Frame], sizes: list[int], planner: WindowPlanner) -> list[Window]:
    """Feed the frames in chunks of the given sizes and plan a window whenever something is final."""
    state, at = PlannerState(), 0
    windows: list[Window] = []
    for size in [*sizes, len(frames)]:
        planner.push(state, frames[at : at + size])
        at = min(len(frames), at + size)
        ended = at == len(frames)
        if planner.final_latents(state, state.n_frames, ended) > state.emitted_latents:
            windows.append(planner.plan(state, state.n_frames, ended))
        if ended:
            break
    return windows


@given(st.integers(1, 40), st.lists(st.integers(1, 9), max_size=40), st.integers(0, 5))
def test_streamed_windows_decode_to_the_whole(n: int, sizes: list[int], seed: int) -> None:
    frames = frames_of(n, seed)
    windows = stream(frames, sizes, WindowPlanner(SHAPE))
    whole = far_sighted_decode(np.asarray(frames, np.int32).reshape(-1), 0, SHAPE.context_latents)
    assert sum(w.n_samples for w in windows) == 2048 * n
    np.testing.assert_array_equal(emitted(windows), whole)


def test_the_synthetic_codec_notices_a_window_with_too_little_context() -> None:
    """Else the property above could not fail."""
    frames = frames_of(20)
    short = CodecShape(context_latents=9, latents_per_frame=4, samples_per_latent=512)
    whole = far_sighted_decode(np.asarray(frames, np.int32).reshape(-1), 0, SHAPE.context_latents)
    assert not np.array_equal(emitted(stream(frames, [1] * 20, WindowPlanner(short))), whole)


def test_first_chunk_after_three_frames_is_1024_samples() -> None:
    planner, state = WindowPlanner(SHAPE), PlannerState()
    planner.push(state, frames_of(2))
    assert planner.first_frames == SHAPE.first_exact_frames == 3
    with pytest.raises(ValueError, match="nothing is final"):
        planner.plan(state, 2)
    planner.push(state, frames_of(1))
    window = planner.plan(state, 3)
    assert (window.n_samples, window.first_sample, window.first_frame, len(window.codes)) == (1024, 0, 0, 21)


def test_a_steady_stream_decodes_five_frames_of_context() -> None:
    planner, state = WindowPlanner(SHAPE), PlannerState()
    for size, wanted in ((1, 6), (8, 13)):
        planner.push(state, frames_of(20))
        planner.plan(state, state.n_frames)
        planner.push(state, frames_of(size))
        window = planner.plan(state, state.n_frames)
        assert len(window.codes) == 7 * wanted
        assert window.n_samples == 2048 * size


def test_only_the_first_chunk_is_approximate_with_a_short_lookahead() -> None:
    frames = frames_of(12)
    planner = WindowPlanner(SHAPE, lookahead_latents=4)
    assert planner.first_frames == 2
    windows = stream(frames, [2] + [1] * 10, planner)
    whole = far_sighted_decode(np.asarray(frames, np.int32).reshape(-1), 0, SHAPE.context_latents)
    got = emitted(windows)
    assert len(got) == len(whole)
    assert windows[0].n_samples == 2048
    assert not np.array_equal(got[:4], whole[:4])
    np.testing.assert_array_equal(got[4:], whole[4:])


def test_the_planner_keeps_only_the_frames_it_needs() -> None:
    planner, state = WindowPlanner(SHAPE), PlannerState()
    for _ in range(700):
        planner.push(state, frames_of(1))
        if state.n_frames >= 3:
            planner.plan(state, state.n_frames)
            assert len(state.frames) <= 6
    assert state.n_frames == 700


def test_impossible_plans_are_refused() -> None:
    planner, state = WindowPlanner(SHAPE), PlannerState()
    planner.push(state, frames_of(4))
    with pytest.raises(ValueError, match="outside"):
        planner.plan(state, 5)
    with pytest.raises(ValueError, match="outside"):
        planner.plan(state, 3, at_end=True)


def test_a_closing_window_is_legal_and_empty() -> None:
    window = closing_window()
    assert window.n_samples == 0
    assert len(window.codes) == 7
