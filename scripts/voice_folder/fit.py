"""Does a voice.json fit the checkpoint it is put beside? A wrong pair loads without a word and speaks noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from speech_lm.frontends import WARM_UP_TEXT, Frontend
from speech_lm.tokens import SLOTS_PER_FRAME
from speech_lm.voice import Voice


def misfits(voice: Voice, vocab_size: int, frontend: Frontend) -> list[str]:
    """What is wrong, for people; empty where nothing is."""
    return [*_ids_outside(voice, vocab_size), *_text_as_control(voice, vocab_size, frontend)]


def _ids_outside(voice: Voice, vocab_size: int) -> Iterator[str]:
    space = voice.tokens
    end = space.audio_base + SLOTS_PER_FRAME * space.codebook_size
    if end > vocab_size:
        yield f"tokens: audio ids end at {end - 1}, but the model's vocabulary ends at {vocab_size - 1}"
    for key, ids in (("tokens.end_ids", space.end_ids), ("prompt.before", voice.prompt.before), ("prompt.after", voice.prompt.after)):
        if outside := _not_below(ids, vocab_size):
            yield f"{key}: {outside} are outside the model's vocabulary of {vocab_size}"
    if speech := sorted(i for i in space.end_ids if space.locate(i) is not None):
        yield f"tokens.end_ids: {speech} are audio ids"


def _text_as_control(voice: Voice, vocab_size: int, frontend: Frontend) -> Iterator[str]:
    """A tokenizer of another model shows here: its text ids would lie among the audio ids or outside the vocabulary."""
    ids = frontend.encode(voice.prompt.text_of(voice.voices[0], frontend.spell(WARM_UP_TEXT)))
    if not ids:
        yield f"{voice.frontend.file} makes no ids of an English sentence"
    if outside := _not_below(ids, vocab_size):
        yield f"{voice.frontend.file} makes ids outside the model's vocabulary of {vocab_size}: {outside}"
    if speech := sorted({i for i in ids if voice.tokens.locate(i) is not None}):
        yield f"{voice.frontend.file} makes audio ids of text: {speech}"


def _not_below(ids: Iterable[int], vocab_size: int) -> list[int]:
    return sorted({i for i in ids if not 0 <= i < vocab_size})
