"""A speech language model as data: `voice.json` beside its weights says everything that differs between models.

    {
      "name": "pocket",                      the model's name, for people
      "tokens":  {"audio_base", "codebook_size", "end_ids"},
      "prompt":  {"before": [ids], "template": "{voice}: {text}", "after": [ids]},
      "frontend": {"kind": "phonemes" | "text", "file": "characters.json" | "tokenizer.json"},
      "voices":  ["tara", ...],              the first is the default
      "describes_voices": false,             true: VOICE may be any description in words, and `voices` holds examples
      "sampling": {"temperature", "top_p", "top_k", "repetition_penalty"},
      "length":  {"base_frames", "frames_per_character", "max_segment_characters"},
      "codec":   {"context_latents", "latents_per_frame", "samples_per_latent", "sample_rate_hz"}
    }

`length` bounds a generation that never ends: base_frames + frames_per_character * characters of what the frontend made of the text.
`codec` must describe the codec that decodes the model's codes; `context_latents` is what snac_codec.receptive_field computes.
Every key is required and an unknown key is an error: a misspelt one must not be ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from .prompt import PromptFormat
from .tokens import TokenSpace
from .windows import CodecShape

T = TypeVar("T")


@dataclass(frozen=True)
class SamplingDefaults:
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float


@dataclass(frozen=True)
class FrontendSpec:
    kind: str
    file: str


@dataclass(frozen=True)
class LengthRule:
    """frames_per_character: of the frontend's output (phonemes or text); max_segment_characters: of the text itself."""

    base_frames: int
    frames_per_character: float
    max_segment_characters: int

    def max_frames(self, characters: int) -> int:
        return self.base_frames + int(self.frames_per_character * characters)


@dataclass(frozen=True)
class Voice:
    name: str
    folder: Path
    tokens: TokenSpace
    prompt: PromptFormat
    frontend: FrontendSpec
    voices: tuple[str, ...]
    describes_voices: bool
    sampling: SamplingDefaults
    length: LengthRule
    codec: CodecShape


def load_voice(folder: Path) -> Voice:
    """Read and check `voice.json`. Raises ValueError that names the file and the key."""
    path = folder / "voice.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: a voice folder holds voice.json, the frontend's file and the model") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    top = _exactly(path, "", raw, {f.name for f in fields(Voice)} - {"folder"})
    tokens = _build(path, "tokens", top, TokenSpace, end_ids=frozenset)
    prompt = _build(path, "prompt", top, PromptFormat, before=tuple, after=tuple)
    voices = tuple(map(str, top["voices"]))
    if not all(voices) or not voices:
        raise ValueError(f"{path}: voices must be a list of one or more names")
    described = top["describes_voices"]
    if not isinstance(described, bool):
        raise ValueError(f"{path}: describes_voices must be true or false")
    return Voice(
        name=str(top["name"]),
        folder=folder,
        tokens=tokens,
        prompt=prompt,
        frontend=_build(path, "frontend", top, FrontendSpec),
        voices=voices,
        describes_voices=described,
        sampling=_build(path, "sampling", top, SamplingDefaults),
        length=_build(path, "length", top, LengthRule),
        codec=_build(path, "codec", top, CodecShape),
    )


def _build(path: Path, key: str, top: dict[str, Any], kind: type[T], **convert: Any) -> T:
    section = _exactly(path, key, top[key], {f.name for f in fields(cast(Any, kind))})
    return kind(**{name: convert[name](value) if name in convert else value for name, value in section.items()})


def _exactly(path: Path, key: str, found: object, wanted: set[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{path}: {key or 'the file'} must be an object")
    section = cast("dict[str, Any]", found)
    wrong = sorted(section.keys() ^ wanted)
    if wrong:
        raise ValueError(f"{path}: {key + ': ' if key else ''}unknown or missing keys {wrong}; wanted are {sorted(wanted)}")
    return section
