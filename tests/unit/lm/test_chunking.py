"""The chunk policy, driven with a fake clock: a model that makes frames at some pace, a codec without delay, a listener."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from speech_lm.chunking import ChunkPolicy, Playback, decide

FRAME_S = 2048 / 24000
POLICY = ChunkPolicy(frame_s=FRAME_S, first_frames=3, context_s=10 * 512 / 24000, max_frames=8, comfort_s=0.3)


def play(policy: ChunkPolicy, arrivals: Sequence[float]) -> tuple[list[tuple[float, int]], float]:
    """arrivals: seconds at which each frame is there. -> (time and new frames of each chunk), the longest time the listener ran dry."""
    playback, taken, now, dry = Playback(), 0, 0.0, 0.0
    chunks: list[tuple[float, int]] = []
    events = sorted(arrivals)
    while events or taken < playback.n_frames or not chunks:
        ended = not events
        decision = decide(policy, playback, playback.n_frames - taken, ended, now)
        if decision.take_frames:
            taken += decision.take_frames
            if chunks:
                dry = max(dry, -playback.buffer_s(now))
            held = 0.0 if ended and taken == playback.n_frames else policy.context_s
            playback.chunk_sent(taken * policy.frame_s - held - playback.sent_s, now)
            chunks.append((now, decision.take_frames))
            continue
        if not events:
            break
        if decision.wake_in_s is not None and now + decision.wake_in_s < events[0]:
            now += decision.wake_in_s + 1e-9
            continue
        now = events.pop(0)
        playback.frames_arrived(1, now)
    return chunks, dry


def test_a_fast_model_speaks_after_three_frames_then_in_growing_chunks() -> None:
    chunks, dry = play(POLICY, [0.012 * (i + 1) for i in range(100)])
    sizes = [size for _, size in chunks]
    assert chunks[0] == (pytest.approx(0.036), 3)
    assert dry <= 0
    assert sizes[1] == 1
    assert max(sizes) == 8
    assert len(chunks) < 25


def test_frames_that_come_at_once_still_make_a_small_first_chunk() -> None:
    chunks, _ = play(POLICY, [0.05] * 40)
    assert [size for _, size in chunks[:2]] == [3, 1]


def test_a_chunk_is_no_longer_than_the_buffer_can_wait_for() -> None:
    playback = Playback(n_frames=40)
    playback.chunk_sent(2.5 * FRAME_S, now=0.0)
    assert decide(POLICY, playback, 20, False, now=0.0).take_frames == 3
    assert decide(POLICY, playback, 20, False, now=2 * FRAME_S).take_frames == 1
    assert decide(POLICY, playback, 20, False, now=5.0).take_frames == 2, "dry: soon, but not the dearest size"
    playback.chunk_sent(20 * FRAME_S, now=0.0)
    assert decide(POLICY, playback, 20, False, now=0.0).take_frames == 8


@pytest.mark.parametrize("pace", [0.3, 0.5, 0.7, 0.9, 0.95])
def test_a_model_faster_than_real_time_never_runs_dry(pace: float) -> None:
    _, dry = play(POLICY, [pace * FRAME_S * (i + 1) for i in range(200)])
    assert dry <= 0


def test_a_slow_model_waits_for_a_safe_first_chunk() -> None:
    chunks, _ = play(POLICY, [0.9 * FRAME_S * (i + 1) for i in range(50)])
    assert chunks[0][1] == 4


@pytest.mark.parametrize(("codec_ms", "frames"), [(20, 3), (34, 3), (60, 4), (150, 5), (200, 6), (900, 6)])
def test_a_busy_codec_makes_the_first_chunk_longer(codec_ms: int, frames: int) -> None:
    """The second chunk waits in the codec: the first must last that long."""
    playback = Playback(n_frames=10)
    assert decide(POLICY, playback, 10, False, now=0.0, codec_s=codec_ms / 1000).take_frames == frames
    assert decide(POLICY, playback, frames - 1, False, now=0.0, codec_s=codec_ms / 1000).take_frames == 0


def test_the_first_chunk_waits_three_frames_at_most() -> None:
    chunks, _ = play(POLICY, [4 * FRAME_S * (i + 1) for i in range(50)])
    assert chunks[0][1] == 6


def test_the_next_frame_is_made_before_it_is_decoded() -> None:
    """Model and codec come one after the other: 30 ms and 30 ms need a longer first chunk than either."""
    playback = Playback(n_frames=10, first_frame_at=0.0, last_frame_at=9 * 0.03)
    assert decide(POLICY, playback, 10, False, now=0.3, codec_s=0.0).take_frames == 3
    assert decide(POLICY, playback, 10, False, now=0.3, codec_s=0.03).take_frames == 4


def test_small_chunks_while_the_buffer_is_short() -> None:
    chunks, _ = play(POLICY, [0.9 * FRAME_S * (i + 1) for i in range(20)])
    assert all(size == 1 for _, size in chunks[1:6])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_a_fixed_size_is_kept(size: int) -> None:
    chunks, _ = play(replace(POLICY, fixed_frames=size), [0.01 * (i + 1) for i in range(50)])
    sizes = [s for _, s in chunks]
    assert sizes[0] == max(3, size)
    assert set(sizes[1:-1]) == {size}
    assert 0 < sizes[-1] <= size


def test_a_short_utterance_comes_whole_at_its_end() -> None:
    for n in (1, 2):
        chunks, _ = play(POLICY, [0.01] * n)
        assert [size for _, size in chunks] == [n]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=80), st.integers(0, 8), st.integers(1, 12))
def test_every_frame_is_sent_once_and_no_chunk_is_too_large(arrivals_ms: list[int], fixed: int, most: int) -> None:
    policy = replace(POLICY, fixed_frames=min(fixed, most), max_frames=most)
    chunks, _ = play(policy, [ms / 1000 for ms in arrivals_ms])
    assert sum(size for _, size in chunks) == len(arrivals_ms)
    assert chunks[0][1] <= max(6, fixed)
    assert all(size <= max(most, 2) for _, size in chunks[1:])
