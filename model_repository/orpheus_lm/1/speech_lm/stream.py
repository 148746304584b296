"""One utterance from its first token to its last window: segments in order, one window planner, one noise tape, flow control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from .acks import AckTable, Ticket
from .chunking import ChunkPolicy, Playback, decide
from .engines.base import Engine
from .errors import NoAudio, SpeechError
from .framing import Framer
from .metrics import Metrics
from .segment import Segment
from .windows import PlannerState, Window, WindowPlanner, closing_window

ACK_POLL_S = 0.005
"""How often a stream that may not send looks for acknowledgements: well below the codec's own batching delay."""
DEAD_POLL_S = 0.25
CODEC_QUEUE_S = 0.015
"""The codec's max_queue_delay_microseconds (snac_decoder/config.pbtxt)."""


@dataclass(frozen=True)
class Chunk:
    """One response of the language model. ticket: (table id, slot, generation), zeros where no codec follows."""

    window: Window
    index: int
    ticket: tuple[int, int, int]
    finish_reason: str

    @property
    def is_last(self) -> bool:
        return self.finish_reason != ""


class Sink(Protocol):
    """Where a stream's responses go. Neither method blocks; after the last chunk or an error nothing more is sent."""

    def send(self, chunk: Chunk) -> None: ...
    def fail(self, error: BaseException) -> None: ...


@dataclass(frozen=True)
class StreamParts:
    """What all streams of a service share."""

    engine: Engine
    framer: Framer
    planner: WindowPlanner
    table: AckTable
    metrics: Metrics
    clock: Callable[[], float]
    max_outstanding: int
    dead_after_s: float
    segments_ahead: int


class SpeechStream:
    """segments: the stream's segments, made lazily (reading text takes time), in order. ticket: None where no codec follows."""

    def __init__(self, parts: StreamParts, policy: ChunkPolicy, segments: Iterator[Segment], sink: Sink, ticket: Ticket | None) -> None:
        self._parts, self._policy, self._sink, self._ticket = parts, policy, sink, ticket
        self._coming = segments
        self._open: list[Segment] = []  # started and not used up, the first is the one being spoken
        self._all_read = False
        self._hit_limit = False
        self._planner = PlannerState()
        self._playback = Playback()
        self._index = 0
        self._outstanding = 0
        self._cause: str | None = None
        self._wake = asyncio.Event()
        self._began = parts.clock()

    def cancel(self, cause: str) -> None:
        """End the stream with finish reason `cancelled`; from the event loop's thread, any time."""
        self._cause = self._cause or cause
        self._wake.set()

    async def run(self) -> str:
        """Speak it all and return the outcome: stop, length or cancelled. Raises what ended it otherwise; the sink is told by the
        caller."""
        try:
            self._start_segments()
            while True:
                self._wake.clear()
                self._take_frames()
                outcome, wait_s = self._advance()
                if outcome:
                    return outcome
                await self._sleep(wait_s)
        finally:
            for segment in self._open:
                segment.abort()
            for segment in self._open:
                await segment.join()
            self._note_outstanding(0)

    def _advance(self) -> tuple[str, float | None]:
        """Send what may be sent. -> (outcome or "", seconds until there is something to look at though nothing wakes the stream)."""
        while True:
            now = self._parts.clock()
            if self._cause is None and self._ticket and self._parts.table.is_dead(self._ticket, self._parts.dead_after_s, now):
                self._cause = "no_acknowledgement"
            if self._cause is not None:
                self._parts.metrics.cancels[self._cause] += 1
                self._send(closing_window(), "cancelled", now)
                return "cancelled", None
            if not self._may_send(now):
                return "", ACK_POLL_S
            ended = self._all_read and not self._open
            waiting = self._planner.waiting_frames
            if ended and not self._planner.n_frames:
                raise NoAudio("the model ended without one whole frame of audio")
            decision = decide(self._policy, self._playback, waiting, ended, now, self._codec_s(now))
            if not decision.take_frames and not ended:
                watch_s = DEAD_POLL_S if self._outstanding else None
                waits = [s for s in (decision.wake_in_s, watch_s) if s is not None]
                return "", min(waits) if waits else None
            upto = self._planner.planned_frames + decision.take_frames
            at_end = ended and upto == self._planner.n_frames
            reason = ("length" if self._hit_limit else "stop") if at_end else ""
            self._send(self._parts.planner.plan(self._planner, upto, at_end), reason, now)
            if at_end:
                return reason, None

    def _send(self, window: Window, reason: str, now: float) -> None:
        if self._index == 0 and window.n_samples:
            self._parts.metrics.first_window(1000 * (now - self._began))
        ticket = (0, 0, 0)
        if self._ticket:
            ticket = (self._parts.table.table_id, self._ticket.slot, self._ticket.generation)
            self._parts.table.sent(self._ticket, now)
        self._sink.send(Chunk(window, self._index, ticket, reason))
        self._index += 1
        self._parts.metrics.totals["windows_total"] += 1
        self._playback.chunk_sent(window.n_samples / self._parts.planner.shape.sample_rate_hz, now)

    def _codec_s(self, now: float) -> float:
        """What a window takes in the codec, before its own decode: the wait for batch mates and, unless this stream is the only one, for
        the batch of others."""
        if self._ticket is None:
            return 0.0
        others = self._parts.metrics.active_streams > 1
        return CODEC_QUEUE_S + (self._parts.table.codec_batch_s(now) if others else 0.0)

    def _may_send(self, now: float) -> bool:
        if self._ticket is None:
            return True
        self._note_outstanding(self._parts.table.outstanding(self._ticket, now))
        # No window joins the codec batch of the first: the first sound would wait for its decode too.
        alone = self._ticket.sent == 1 and not self._parts.table.first_is_under_way(self._ticket)
        return self._outstanding < (1 if alone else self._parts.max_outstanding)

    def _note_outstanding(self, count: int) -> None:
        self._parts.metrics.outstanding_windows += count - self._outstanding
        self._outstanding = count

    def _take_frames(self) -> None:
        """Move frames of the segment being spoken into the planner; go on to the next when it is used up."""
        while self._open:
            segment = self._open[0]
            if segment.frames:
                frames, segment.frames = segment.frames, []
                self._parts.planner.push(self._planner, frames)
                self._playback.frames_arrived(len(frames), self._parts.clock())
            if not segment.done:
                break
            if segment.error is not None:
                raise segment.error if isinstance(segment.error, SpeechError) else SpeechError(f"the engine failed: {segment.error}")
            if not segment.produced_frames:
                raise NoAudio("the model ended without one whole frame of audio")
            self._hit_limit |= segment.hit_limit
            self._open.pop(0)
            self._start_segments()
        if self._playback.first_chunk_at is not None:
            self._start_segments()

    def _start_segments(self) -> None:
        """Keep the segment being spoken running and, once the listener has something to hear, the next ones ahead of time."""
        wanted = 1 + (self._parts.segments_ahead if self._playback.first_chunk_at is not None else 0)
        while not self._all_read and len(self._open) < wanted:
            segment = next(self._coming, None)
            if segment is None:
                self._all_read = True
                return
            segment.start(self._parts.engine, self._parts.framer, self._parts.metrics, self._wake.set)
            self._open.append(segment)

    async def _sleep(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
