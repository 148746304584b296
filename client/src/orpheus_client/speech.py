"""What a caller asks for and gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from .audio import SampleFormat, WavWriter, to_bytes, to_float
from .errors import StreamBroken
from .timings import Timings


class SpeechOptions(TypedDict, total=False):
    """Options of one utterance; what is left out or None is the server's default, see `describe()`.

    voice: one of `voices()`.
    temperature: 0 (greedy) to 2.
    top_p: above 0, at most 1.
    top_k: 0 for off.
    repetition_penalty: 1 for none.
    max_tokens: per segment of the text, 7 for each 85.33 ms frame.
    seed: the same seed gives the same audio when alone on the server.
    chunk_frames: new frames per chunk; 0 lets the server adapt to the listener's buffer.
    """

    voice: str | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    repetition_penalty: float | None
    max_tokens: int | None
    seed: int | None
    chunk_frames: int | None


@dataclass(frozen=True)
class SpeechRequest:
    """The text and the fields of `SpeechOptions`. The text stays out of the representation, so that it does not end in a log."""

    text: str
    voice: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    chunk_frames: int | None = None

    def __repr__(self) -> str:
        return f"SpeechRequest({len(self.text)} characters, voice={self.voice!r})"


@dataclass(frozen=True, eq=False)
class Chunk:
    """Audio as it came.

    samples: int16 [n], n > 0, not writable. index: its number in the stream. arrived_s: since the stream was opened.
    """

    samples: NDArray[np.int16]
    index: int
    arrived_s: float

    def float(self) -> NDArray[np.float32]:
        """float32 [n] in [-1, 1)."""
        return to_float(self.samples)

    def pcm(self, sample_format: SampleFormat = "int16") -> bytes:
        """Little-endian bytes."""
        return to_bytes(self.samples, sample_format)


@dataclass(frozen=True, eq=False)
class Speech:
    """A whole utterance. samples: int16 [n]. finish_reason: "stop", or "length" where it was cut at its token limit."""

    samples: NDArray[np.int16]
    sample_rate_hz: int
    finish_reason: str
    request_id: str
    timings: Timings

    def float(self) -> NDArray[np.float32]:
        """float32 [n] in [-1, 1)."""
        return to_float(self.samples)

    def pcm(self, sample_format: SampleFormat = "int16") -> bytes:
        """Little-endian bytes."""
        return to_bytes(self.samples, sample_format)

    def save_wav(self, path: str | os.PathLike[str], sample_format: SampleFormat = "int16") -> None:
        with WavWriter(path, self.sample_rate_hz, sample_format) as file:
            file.write(self.samples)


def whole_speech(chunks: Sequence[Chunk], finish_reason: str, request_id: str, timings: Timings) -> Speech:
    """Raises StreamBroken where the stream was cancelled: half an utterance is not passed off as one."""
    if finish_reason == "cancelled":
        raise StreamBroken("the stream was cancelled, or the client closed, before it was complete", request_id)
    samples = np.concatenate([chunk.samples for chunk in chunks])
    return Speech(samples, timings.sample_rate_hz, finish_reason, request_id, timings)
