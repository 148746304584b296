"""When to send the next chunk: soon enough that the listener never runs dry, late enough that context is not decoded for nothing.

Context makes small chunks dear: with SNAC 24 kHz a 1-frame chunk decodes 6 frames, an 8-frame chunk 13. So the first chunk goes out
as soon as it is exact and will not run dry, then chunks follow at once while the listener's buffer is short, and grow once it is
comfortable: a chunk takes time to decode, and may hold no more than the buffer can wait for. Pure: time comes in as an argument, in
seconds of any monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_CHUNK_PATIENCE_FRAMES = 3
"""How many frames beyond the fewest the first chunk may wait for when the server is slow."""
FIRST_CHUNK_MARGIN = 1.25
"""Audio of the first chunk, in times that the next one takes to come, below which it would run dry."""
DRY_FRAMES = 2
"""The largest chunk for a listener who has run dry: small, to be there soon, but not the dearest, for the server is behind."""


@dataclass(frozen=True)
class ChunkPolicy:
    """frame_s: seconds of audio in a frame. first_frames: the fewest frames of a first chunk. context_s: audio held back behind
    the newest frame until more is known. max_frames: the most new frames in one window. comfort_s: the buffer under which chunks leave at
    once. fixed_frames: 0 for adaptive, else the size of every chunk but the first and the last."""

    frame_s: float
    first_frames: int
    context_s: float
    max_frames: int
    comfort_s: float
    fixed_frames: int = 0


@dataclass
class Playback:
    """What the policy knows of one stream: mutated by `frames_arrived` and `chunk_sent`.

    first_frame_at, last_frame_at: when the first and the newest frame came; n_frames: frames so far.
    first_chunk_at: when the listener could start; sent_s: audio sent since.
    """

    n_frames: int = 0
    first_frame_at: float = 0.0
    last_frame_at: float = 0.0
    first_chunk_at: float | None = None
    sent_s: float = 0.0

    def frames_arrived(self, count: int, now: float) -> None:
        if self.n_frames == 0:
            self.first_frame_at = now
        self.n_frames += count
        self.last_frame_at = now

    def chunk_sent(self, audio_s: float, now: float) -> None:
        if self.first_chunk_at is None:
            self.first_chunk_at = now
        self.sent_s += audio_s

    def buffer_s(self, now: float) -> float:
        """Audio that the listener has and has not heard yet; negative after an underrun."""
        return self.sent_s - (now - self.first_chunk_at) if self.first_chunk_at is not None else 0.0

    @property
    def frame_interval_s(self) -> float:
        """The model's own pace so far: seconds from one frame to the next."""
        return (self.last_frame_at - self.first_frame_at) / (self.n_frames - 1) if self.n_frames > 1 else 0.0


@dataclass(frozen=True)
class Decision:
    """take_frames: new frames to send now, 0 for none; wake_in_s: when to ask again though no frame comes, None for never."""

    take_frames: int = 0
    wake_in_s: float | None = None


def decide(policy: ChunkPolicy, playback: Playback, waiting_frames: int, at_end: bool, now: float, codec_s: float = 0.0) -> Decision:
    """waiting_frames: complete frames not yet part of a chunk; at_end: no more will come; codec_s: what a window takes in the codec now."""
    most = _most_frames(policy, playback, now, codec_s)
    if at_end:
        return Decision(min(waiting_frames, most))
    if playback.first_chunk_at is None or policy.fixed_frames:
        return Decision(most if waiting_frames >= most else 0)
    if waiting_frames == 0:
        return Decision()
    spare_s = playback.buffer_s(now) - policy.comfort_s - playback.frame_interval_s
    if spare_s > 0 and waiting_frames < most:
        return Decision(wake_in_s=spare_s)
    return Decision(min(waiting_frames, most))


def _most_frames(policy: ChunkPolicy, playback: Playback, now: float, codec_s: float) -> int:
    """The largest chunk now. The first is as small as can be; the next ones must be decoded before the listener's buffer runs dry, so
    they grow with it."""
    if playback.first_chunk_at is None:
        return max(_first_frames(policy, playback, codec_s), policy.fixed_frames)
    if policy.fixed_frames:
        return policy.fixed_frames
    buffer_s = playback.buffer_s(now)
    if buffer_s >= policy.comfort_s:
        return policy.max_frames
    return min(policy.max_frames, max(1, math.ceil(buffer_s / policy.frame_s)) if buffer_s > 0 else DRY_FRAMES)


def _first_frames(policy: ChunkPolicy, playback: Playback, codec_s: float) -> int:
    """The fewest frames whose audio lasts until the next chunk is there: its frame made by a model of this pace, then decoded by a codec
    that may just have begun with another batch. Within some patience."""
    frames, most = policy.first_frames, policy.first_frames + FIRST_CHUNK_PATIENCE_FRAMES
    next_s = FIRST_CHUNK_MARGIN * (playback.frame_interval_s + codec_s)
    while frames < most and frames * policy.frame_s - policy.context_s < next_s:
        frames += 1
    return frames
