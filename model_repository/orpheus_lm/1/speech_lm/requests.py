"""Input tensors to a checked request. Everything that a caller can get wrong is found here, before any audio.

Tensor names and types are those of config.pbtxt; a value may come with any shape of one element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidRequest
from .frontends import normalise
from .tokens import SLOTS_PER_FRAME
from .voice import Voice

MAX_SEED = 2**63 - 1
MAX_DESCRIPTION_CHARACTERS = 500
Default = TypeVar("Default", int, None)


@dataclass(frozen=True)
class SpeechRequest:
    """text: normalised, not empty. max_tokens: per segment, None for the bound that follows from the text. chunk_frames: 0 for adaptive."""

    request_id: str
    text: str
    voice: str
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    max_tokens: int | None
    seed: int | None
    chunk_frames: int
    standalone: bool


@dataclass(frozen=True)
class StopRequest:
    request_id: str


@dataclass(frozen=True)
class DescribeRequest:
    pass


Request = SpeechRequest | StopRequest | DescribeRequest
Tensors = Mapping[str, NDArray[Any]]


def parse_request(request_id: str, tensors: Tensors, voice: Voice, max_text_characters: int, max_chunk_frames: int) -> Request:
    """tensors: those that the caller gave. Raises InvalidRequest that names the field and the value (never the text)."""
    if _flag(tensors, "STOP"):
        if not request_id:
            raise InvalidRequest("STOP ends the stream with the same request id, and this request has none")
        return StopRequest(request_id)
    if _flag(tensors, "DESCRIBE"):
        return DescribeRequest()
    defaults = voice.sampling
    return SpeechRequest(
        request_id=request_id,
        text=_text(tensors, max_text_characters),
        voice=_voice(tensors, voice),
        temperature=_real(tensors, "TEMPERATURE", defaults.temperature, 0.0, 2.0),
        top_p=_real(tensors, "TOP_P", defaults.top_p, 0.0, 1.0, open_below=True),
        top_k=_whole(tensors, "TOP_K", 0, 2**31 - 1, defaults.top_k),
        repetition_penalty=_real(tensors, "REPETITION_PENALTY", defaults.repetition_penalty, 0.0, 10.0, open_below=True),
        max_tokens=_whole(tensors, "MAX_TOKENS", SLOTS_PER_FRAME, 2**31 - 1, None),
        seed=_whole(tensors, "SEED", 0, MAX_SEED, None),
        chunk_frames=_whole(tensors, "CHUNK_FRAMES", 0, max_chunk_frames, 0),
        standalone=_flag(tensors, "STANDALONE"),
    )


def _one(tensors: Tensors, name: str) -> Any:
    """The only element of a tensor, None where it was not given."""
    array = tensors.get(name)
    if array is None:
        return None
    if array.size != 1:
        raise InvalidRequest(f"{name} must hold one value, not shape {list(array.shape)}")
    return array.reshape(-1)[0]


def _flag(tensors: Tensors, name: str) -> bool:
    return bool(_one(tensors, name))


def _string(tensors: Tensors, name: str) -> str | None:
    value = _one(tensors, name)
    if value is None:
        return None
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is not valid UTF-8 (byte {error.start})") from None


def _text(tensors: Tensors, max_characters: int) -> str:
    text = _string(tensors, "TEXT")
    if text is None:
        raise InvalidRequest("TEXT is missing")
    if len(text) > max_characters:
        raise InvalidRequest(f"TEXT has {len(text)} characters; this server takes at most {max_characters}")
    text = normalise(text)
    if not text:
        raise InvalidRequest("TEXT is empty")
    return text


def _voice(tensors: Tensors, voice: Voice) -> str:
    name = _string(tensors, "VOICE")
    if name is None:
        return voice.voices[0]
    if voice.describes_voices:
        return _description(name)
    if name not in voice.voices:
        raise InvalidRequest(f"VOICE {name[:40]!r} is unknown; voices are: {', '.join(voice.voices)}")
    return name


def _description(text: str) -> str:
    """Of a voice, in words. It is tokenised as text is, so it can no more become a control id."""
    description = normalise(text)
    if not description or len(description) > MAX_DESCRIPTION_CHARACTERS:
        raise InvalidRequest(f"VOICE must describe a voice in 1 to {MAX_DESCRIPTION_CHARACTERS} characters, not {len(description)}")
    return description


def _real(tensors: Tensors, name: str, default: float, least: float, most: float, open_below: bool = False) -> float:
    value = _one(tensors, name)
    if value is None:
        return default
    number = float(value)
    if not math.isfinite(number) or not least <= number <= most or (open_below and number == least):
        raise InvalidRequest(f"{name} must be {'above' if open_below else 'from'} {least:g} and at most {most:g}, not {number:g}")
    return float(np.float32(number))


def _whole(tensors: Tensors, name: str, least: int, most: int, default: Default) -> int | Default:
    value = _one(tensors, name)
    if value is None:
        return default
    if not least <= int(value) <= most:
        raise InvalidRequest(f"{name} must be from {least} to {most}, not {int(value)}")
    return int(value)
