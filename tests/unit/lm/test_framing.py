from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from speech_lm.framing import Frame, Framer, FramerState
from speech_lm.tokens import SLOTS_PER_FRAME, TokenSpace

SPACE = TokenSpace(audio_base=128266, codebook_size=4096, end_ids=frozenset({128258, 128262, 128009}))
END = 128258
TEXT_ID = 1234


def frames_of(n: int, seed: int = 0) -> list[Frame]:
    rng = random.Random(seed)
    return [tuple(rng.randrange(4096) for _ in range(SLOTS_PER_FRAME)) for _ in range(n)]


def ids_of(frames: list[Frame]) -> list[int]:
    return [SPACE.token_id(slot, code) for frame in frames for slot, code in enumerate(frame)]


def run(ids: list[int]) -> tuple[list[Frame], FramerState]:
    state = FramerState()
    return Framer(SPACE).push(state, ids), state


@given(st.integers(0, 6), st.integers(0, 4095))
def test_locate_and_token_id_are_inverse(slot: int, code: int) -> None:
    assert SPACE.locate(SPACE.token_id(slot, code)) == (slot, code)


@pytest.mark.parametrize("token_id", [0, 128265, 128266 + 7 * 4096, END])
def test_other_ids_are_no_audio(token_id: int) -> None:
    assert SPACE.locate(token_id) is None


@pytest.mark.parametrize("slot", range(7))
@pytest.mark.parametrize("code", [0, 4095])
def test_first_and_last_code_are_legal_in_every_slot(slot: int, code: int) -> None:
    frames = [list(f) for f in frames_of(5)]
    frames[2][slot] = code
    wanted = [tuple(f) for f in frames]
    got, state = run(ids_of(wanted))
    assert got == wanted
    assert state.resyncs == state.foreign_ids == state.dropped_codes == 0


@pytest.mark.parametrize("at", range(7))
def test_a_dropped_token_costs_one_frame(at: int) -> None:
    frames = frames_of(6)
    ids = ids_of(frames)
    del ids[2 * 7 + at]
    got, state = run(ids)
    assert got == frames[:2] + frames[3:]
    assert state.resyncs == 1
    assert state.dropped_codes == 6


@pytest.mark.parametrize("at", range(7))
def test_a_doubled_token_costs_at_most_one_frame(at: int) -> None:
    frames = frames_of(6)
    ids = ids_of(frames)
    ids.insert(2 * 7 + at, ids[2 * 7 + at])
    got, state = run(ids)
    assert got in (frames, frames[:2] + frames[3:])
    assert state.resyncs == 1


@pytest.mark.parametrize("at", range(7))
def test_an_id_one_codebook_too_high_costs_one_frame(at: int) -> None:
    frames = frames_of(6)
    ids = ids_of(frames)
    ids[2 * 7 + at] = SPACE.token_id(at, 4096)
    got, state = run(ids)
    assert got == frames[:2] + frames[3:]
    assert state.resyncs == 1


@pytest.mark.parametrize("at", range(7))
def test_a_text_id_in_mid_stream_loses_nothing(at: int) -> None:
    frames = frames_of(4)
    ids = ids_of(frames)
    ids.insert(7 + at, TEXT_ID)
    got, state = run(ids)
    assert got == frames
    assert state.foreign_ids == 1
    assert state.resyncs == 0


@pytest.mark.parametrize("position", range(7))
def test_end_of_speech_drops_the_partial_frame_and_all_that_follows(position: int) -> None:
    frames = frames_of(4)
    ids = ids_of(frames)
    got, state = run([*ids[: 14 + position], END, *ids[14 + position :]])
    assert got == frames[:2]
    assert state.ended
    assert state.tokens == 14 + position + 1


@pytest.mark.parametrize("tokens", [0, 7, 21, 27, 28, 29, 34, 35])
def test_whole_frames_only(tokens: int) -> None:
    frames = frames_of(5)
    got, _ = run(ids_of(frames)[:tokens])
    assert got == frames[: tokens // 7]


def test_text_alone_gives_nothing_and_is_counted() -> None:
    got, state = run([TEXT_ID] * 50)
    assert got == []
    assert state.foreign_ids == 50


messy_ids = st.lists(
    st.one_of(
        st.integers(0, 6).flatmap(lambda s: st.integers(SPACE.token_id(s, 0), SPACE.token_id(s, 4095))), st.just(TEXT_ID), st.just(END)
    ),
    max_size=80,
)


@given(st.data())
def test_the_split_into_updates_does_not_matter(data: st.DataObject) -> None:
    ids = data.draw(st.one_of(messy_ids, st.just(ids_of(frames_of(12)))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=30)))
    framer, state = Framer(SPACE), FramerState()
    got: list[Frame] = []
    for first, last in zip([0, *cuts], [*cuts, len(ids)], strict=True):
        got += framer.push(state, ids[first:last])
    whole, whole_state = run(ids)
    assert got == whole
    assert state == whole_state


@given(messy_ids)
def test_every_audio_token_is_used_dropped_or_left_over(ids: list[int]) -> None:
    got, state = run(ids)
    assert state.tokens == 7 * len(got) + state.dropped_codes + state.foreign_ids + len(state.partial) + state.ended
