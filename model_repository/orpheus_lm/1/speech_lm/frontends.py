"""Text to prompt ids. A frontend is a pure function of the text; it is loaded and warmed before the server is ready.

- `text`: a Hugging Face tokenizer (Orpheus). All added tokens are taken out of it first, so text that spells a control token is read
  as plain characters: the caller's text can never become a control id.
- `phonemes`: grapheme-to-phoneme code of `hibari-tts` (PyPI, Apache-2.0), then one id per phoneme character (the embedded voice). It also
  reads numbers, dates and abbreviations.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from .prompt import PromptFormat
from .voice import Voice

WARM_UP_TEXT = "A word like zyxwvat is in no dictionary."
"""Its unknown word makes the phonemes frontend load its net for such words."""

_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
_CONTROL_OR_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def normalise(text: str) -> str:
    """NFC, one space for any run of white space or control characters, no zero-width characters, no outer space."""
    return _CONTROL_OR_SPACE.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFC", text))).strip()


@dataclass(frozen=True)
class Reading:
    """prompt_ids: what the model is given; characters: how much there is to say, in the frontend's own characters; 0 for nothing."""

    prompt_ids: list[int]
    characters: int


@dataclass(frozen=True)
class Frontend:
    """Reads one segment of normalised text in a voice. `spell` turns text into what is spoken, `encode` that into ids."""

    prompt: PromptFormat
    spell: Callable[[str], str]
    encode: Callable[[str], list[int]]

    def read(self, text: str, voice: str) -> Reading:
        spoken = self.spell(text)
        return Reading(self.prompt.ids(self.encode(self.prompt.text_of(voice, spoken))), sum(map(str.isalnum, spoken)) and len(spoken))


def load_frontend(voice: Voice) -> Frontend:
    """Load and warm. Raises ValueError for an unknown kind or a file that does not fit."""
    path = voice.folder / voice.frontend.file
    if voice.frontend.kind == "text":
        frontend = Frontend(voice.prompt, str, plain_text_encoder(path))
    elif voice.frontend.kind == "phonemes":
        frontend = Frontend(voice.prompt, _grapheme_to_phoneme(), character_encoder(path))
    else:
        raise ValueError(f"{voice.folder / 'voice.json'}: unknown frontend kind {voice.frontend.kind!r}; known are 'text' and 'phonemes'")
    frontend.read(WARM_UP_TEXT, voice.voices[0])
    return frontend


def plain_text_encoder(tokenizer_json: Path) -> Callable[[str], list[int]]:
    """A tokenizer without its added tokens, so that no text can spell one of them."""
    from tokenizers import Tokenizer

    description = json.loads(tokenizer_json.read_text(encoding="utf-8"))
    description |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    tokenizer = Tokenizer.from_str(json.dumps(description))
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


def character_encoder(table_json: Path) -> Callable[[str], list[int]]:
    """One id per character; characters that the model never met are left out."""
    table: dict[str, int] = json.loads(table_json.read_text(encoding="utf-8"))
    return lambda text: [table[c] for c in text if c in table]


def _grapheme_to_phoneme() -> Callable[[str], str]:
    from hibari.g2p import G2P
    from hibari.tts import Hibari

    g2p = cast("Callable[[str], str]", G2P())
    split_sentences = cast("Callable[[str], list[str]]", Hibari.split_sentences)
    return lambda text: " ".join(phonemes for sentence in split_sentences(text) if (phonemes := g2p(sentence)))
