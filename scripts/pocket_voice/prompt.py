"""The pocket language model's vocabulary and prompt: control ids, then phoneme characters, then 7 slots of codes.

`voice.json` beside the shipped model holds the same numbers as data; the server reads only that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pocket_voice.layout import SLOTS

PAD, BEGIN, END_OF_TEXT, START_OF_SPEECH, END_OF_SPEECH = range(5)
FIRST_CHARACTER, AUDIO_BASE = 8, 256
CONTROLS_IN_PROMPT = 3  # BEGIN before the characters, END_OF_TEXT and START_OF_SPEECH after them
# Training speech begins with about three silent frames, and the model says them again unless they are in its prompt. These two are
# the most frequent codes of such frames.
LEAD_IN = ((384, 369, 336, 368, 502, 368, 368), (129, 217, 368, 368, 217, 368, 368))


def vocabulary_size(codebook_size: int) -> int:
    return AUDIO_BASE + SLOTS * codebook_size


def character_table(texts: Iterable[str]) -> dict[str, int]:
    """Ids for all characters of the phoneme strings, in code point order; ValueError where they do not fit below AUDIO_BASE."""
    seen = sorted({character for text in texts for character in text})
    if FIRST_CHARACTER + len(seen) > AUDIO_BASE:
        raise ValueError(f"{len(seen)} characters do not fit below id {AUDIO_BASE}")
    return {character: FIRST_CHARACTER + i for i, character in enumerate(seen)}


def prompt_ids(phonemes: str, table: Mapping[str, int]) -> list[int]:
    """Characters without an id are left out."""
    return [BEGIN, *(table[c] for c in phonemes if c in table), END_OF_TEXT, START_OF_SPEECH]


def speaking_prompt_ids(phonemes: str, table: Mapping[str, int], codebook_size: int) -> list[int]:
    """What a finished model is asked with: the training prompt, and the silent frames already said."""
    said = (AUDIO_BASE + slot * codebook_size + code for frame in LEAD_IN for slot, code in enumerate(frame))
    return [*prompt_ids(phonemes, table), *said]


def codes_of(ids: Sequence[int], codebook_size: int) -> list[list[int]] | None:
    """The frames of 7 codes that generated ids spell (the end id not among them); None where the slots are out of order."""
    whole = len(ids) // SLOTS * SLOTS
    pairs = [divmod(i - AUDIO_BASE, codebook_size) for i in ids[:whole]]
    if any(slot != i % SLOTS for i, (slot, _) in enumerate(pairs)):
        return None
    return [[code for _, code in pairs[i : i + SLOTS]] for i in range(0, whole, SLOTS)]
