"""How others turn frames into chunks of audio. Pure: each method says what to decode when a frame has come.

All three decode correctly what they decode, on the same tape of noise as ours: they differ in when, in how much again, and in what they
leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SAMPLES_PER_FRAME = 2048
CONTEXT_FRAMES = 3
"""Right context of the prefix method: enough for exact samples with SNAC 24 kHz (10 latents of 4 a frame)."""
PREFIX_STEP_FRAMES = 4
SLIDING_FRAMES = 4


@dataclass(frozen=True)
class Decode:
    """Frames [first_frame, end_frame) go to the codec; of their samples, [first_sample, first_sample + n_samples) to the listener."""

    first_frame: int
    end_frame: int
    first_sample: int
    n_samples: int


def whole(frame_counts: Iterable[int]) -> Iterator[Decode]:
    """The utterance is generated to its end, then decoded at once: what Auralis does with sentences (astramind-ai/Auralis)."""
    total = max(frame_counts, default=0)
    yield Decode(0, total, 0, total * SAMPLES_PER_FRAME)


def prefix(frame_counts: Iterable[int]) -> Iterator[Decode]:
    """Every few frames everything so far is decoded anew, and what is new of it is sent: the shape of CosyVoice 2 on Triton
    (FunAudioLLM/CosyVoice, runtime/triton_trtllm, token2wav on the growing list of tokens)."""
    total = sent = 0
    for total in frame_counts:
        exact = (total - CONTEXT_FRAMES) * SAMPLES_PER_FRAME
        if exact >= sent + PREFIX_STEP_FRAMES * SAMPLES_PER_FRAME or (not sent and exact > 0):
            yield Decode(0, total, sent, exact - sent)
            sent = exact
    yield Decode(0, total, sent, total * SAMPLES_PER_FRAME - sent)


def sliding(frame_counts: Iterable[int]) -> Iterator[Decode]:
    """From the fourth frame on, each new frame decodes the last four and sends the second one's samples: the reference decoder
    (canopyai/Orpheus-TTS, orpheus_tts_pypi/orpheus_tts/decoder.py). The first frame and the last two are never heard."""
    for total in frame_counts:
        if total >= SLIDING_FRAMES:
            yield Decode(total - SLIDING_FRAMES, total, SAMPLES_PER_FRAME, SAMPLES_PER_FRAME)


METHODS = {"whole": whole, "prefix": prefix, "sliding": sliding}
SERIAL = ("prefix",)
"""Served one request after another: a BLS model whose `execute` runs a request to its end."""
