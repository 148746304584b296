"""Frames, slots and the phoneme that sounds at each code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocket_voice import layout, prompt

ROOT = Path(__file__).parents[3]


@given(st.integers(0, 12))
def test_flatten_and_unflatten_are_inverse(n: int) -> None:
    frames = np.arange(7 * n, dtype=np.int16).reshape(n, 7)
    levels = layout.unflatten(frames)
    assert [len(level) for level in levels] == [n, 2 * n, 4 * n]
    assert np.array_equal(layout.flatten(levels), frames)


def test_slots_follow_time_within_each_level() -> None:
    for slots in layout.LEVEL_SLOTS:
        centres = layout.SLOT_CENTRES[slots]
        assert np.array_equal(np.diff(centres), np.full(len(slots) - 1, layout.FRAME // len(slots)))
        assert centres[0] == layout.FRAME // len(slots) // 2


def test_prompt_leaves_out_what_has_no_id() -> None:
    table = prompt.character_table(["ba", "c"])
    assert prompt.prompt_ids("ab?c", table) == [prompt.BEGIN, 8, 9, 10, prompt.END_OF_TEXT, prompt.START_OF_SPEECH]


def test_the_shipped_voice_is_asked_with_the_training_prompt_and_the_silence_already_said() -> None:
    voice = json.loads((ROOT / "model_repository/orpheus_lm/1/pocket/voice.json").read_text(encoding="utf-8"))
    asked = prompt.speaking_prompt_ids("a", {"a": 9}, voice["tokens"]["codebook_size"])
    assert voice["prompt"]["before"] + [9] + voice["prompt"]["after"] == asked
    assert voice["tokens"]["audio_base"] == prompt.AUDIO_BASE


def test_too_many_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        prompt.character_table("".join(map(chr, range(0x100, 0x300))))


@given(st.lists(st.lists(st.integers(0, 511), min_size=7, max_size=7), max_size=5), st.integers(0, 6))
def test_codes_come_back_without_a_partial_frame(frames: list[list[int]], extra: int) -> None:
    ids = [prompt.AUDIO_BASE + slot * 512 + code for frame in frames for slot, code in enumerate(frame)]
    assert prompt.codes_of(ids + [prompt.AUDIO_BASE + slot * 512 for slot in range(extra)], 512) == frames


def test_codes_out_of_order_are_none() -> None:
    ids = [prompt.AUDIO_BASE + slot * 512 for slot in (0, 1, 2, 3, 5, 4, 6)]
    assert prompt.codes_of(ids, 512) is None
