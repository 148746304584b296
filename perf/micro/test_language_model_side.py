"""What Python costs between the language model's tokens and the codec: `make micro`. Each benchmark handles ten seconds of one stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from speech_lm.acks import AckTable
from speech_lm.chunking import ChunkPolicy, Playback, decide
from speech_lm.framing import Frame, Framer, FramerState
from speech_lm.tokens import SLOTS_PER_FRAME, TokenSpace
from speech_lm.windows import CodecShape, PlannerState, Window, WindowPlanner

FRAMES = 117
SPACE = TokenSpace(audio_base=128266, codebook_size=4096, end_ids=frozenset({128258}))
SHAPE = CodecShape(context_latents=10)
TOKENS = [SPACE.token_id(slot, (frame * 31 + slot) % 4096) for frame in range(FRAMES) for slot in range(SLOTS_PER_FRAME)]
STREAM: list[Frame] = [tuple(range(frame, frame + SLOTS_PER_FRAME)) for frame in range(FRAMES)]

Benchmark = Callable[..., object]


@pytest.mark.parametrize("update", [1, 7, 50])
def test_framing(benchmark: Benchmark, update: int) -> None:
    """update: tokens that come together."""
    framer = Framer(SPACE)
    updates = [TOKENS[at : at + update] for at in range(0, len(TOKENS), update)]

    def frames() -> int:
        state = FramerState()
        return sum(len(framer.push(state, ids)) for ids in updates)

    assert benchmark(frames) == FRAMES


@pytest.mark.parametrize("chunk", [1, 4, 8])
def test_windows(benchmark: Benchmark, chunk: int) -> None:
    """chunk: new frames in a window."""
    planner = WindowPlanner(SHAPE)

    def windows() -> int:
        state, made = PlannerState(), list[Window]()
        for end in (*range(chunk + 2, FRAMES, chunk), FRAMES):
            planner.push(state, STREAM[state.n_frames : end])
            made.append(planner.plan(state, end, end == FRAMES))
        return sum(window.n_samples for window in made)

    assert benchmark(windows) == FRAMES * SHAPE.samples_per_frame


def test_chunk_decisions(benchmark: Benchmark) -> None:
    """One for every frame, 12 ms apart."""
    policy = ChunkPolicy(SHAPE.frame_s, 3, 10 * 512 / 24000, 8, 0.3)

    def decisions() -> int:
        playback, taken = Playback(), 0
        for frame in range(FRAMES):
            now = 0.012 * frame
            playback.frames_arrived(1, now)
            decision = decide(policy, playback, frame + 1 - taken, False, now, codec_s=0.03)
            if decision.take_frames:
                taken += decision.take_frames
                playback.chunk_sent(decision.take_frames * SHAPE.frame_s, now)
        return taken

    assert benchmark(decisions)


def test_acknowledgements(benchmark: Benchmark, tmp_path: Path) -> None:
    """A look at the table for each of 32 streams."""
    table = AckTable(32, tmp_path)
    tickets = [table.take() for _ in range(32)]
    for ticket in tickets:
        table.sent(ticket, now=1.0)

    def look() -> int:
        return sum(table.outstanding(ticket, now=1.1) for ticket in tickets)

    assert benchmark(look) == 32
    table.close()
