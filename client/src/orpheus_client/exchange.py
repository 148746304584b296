"""One utterance as a state machine without I/O.

Both clients feed it what their stream brought, with the time; it answers with chunks, errors and deadlines.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import wire
from .errors import (
    ChunkTimeout,
    EmptySpeech,
    FirstAudioTimeout,
    OrpheusError,
    StreamBroken,
    TimeoutExceeded,
    TotalTimeout,
    from_status,
    from_stream_message,
)
from .speech import Chunk, SpeechRequest
from .timeouts import Timeouts
from .timings import Timeline, Timings

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 2.0
# After an error inside the stream the server ends the call by itself, as a rule at once; only then is STOP worth sending.
ERROR_GRACE_S = 0.1


@dataclass(frozen=True)
class Arrived:
    """A streamed response has come. message: ModelStreamInferResponse."""

    message: Any
    at_s: float


@dataclass(frozen=True)
class Ended:
    """The call is over with status OK."""

    at_s: float


@dataclass(frozen=True)
class Failed:
    """The call is over with another status. code: its name."""

    code: str
    details: str
    at_s: float


Event = Arrived | Ended | Failed


def stop_pauses_s() -> Iterator[float]:
    """How long to wait after each STOP that the server did not know what to do with: the stream may not have reached its model yet."""
    pause_s = 0.05
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, 1.0)


class Exchange:
    """Belongs to the thread or task that reads the stream. After an error or a finish reason it takes nothing more, unless restarted."""

    def __init__(self, request: SpeechRequest, model: str, request_id: str | None, timeouts: Timeouts, retries: int, now_s: float) -> None:
        self.request_id = request_id or uuid.uuid4().hex
        self.timeouts = timeouts
        self.finish_reason = ""
        self._request, self._model = request, model
        self._timeline = Timeline(now_s, wire.SAMPLE_RATE_HZ)
        self._retries, self._attempt = retries, 0
        self._attempt_s = now_s
        self._next_index = 0

    def message(self) -> Any:
        """ModelInferRequest of the current attempt. Raises InvalidRequest."""
        return wire.speech_message(self._request, self._model, self.request_id)

    def timings(self) -> Timings:
        return self._timeline.timings()

    def feed(self, event: Event) -> Chunk | None:
        """Take what the stream brought. -> its audio, None where it holds none. Raises OrpheusError where the utterance is lost."""
        if isinstance(event, Failed):
            self._timeline.last_s = event.at_s
            raise self._lost(from_status(event.code, event.details, self.request_id))
        if isinstance(event, Ended):
            self._timeline.last_s = event.at_s
            raise StreamBroken(f"the stream ended after {self._next_index} chunks without saying that it is complete", self.request_id)
        response = wire.read_response(event.message)
        if response.error:
            self._timeline.last_s = event.at_s
            raise self._lost(from_stream_message(response.error, self.request_id))
        return self._chunk(response, event.at_s)

    def _chunk(self, response: wire.Response, at_s: float) -> Chunk | None:
        tensors = wire.chunk_tensors(response)
        if tensors is None:
            raise StreamBroken("a response without AUDIO (INT16), INDEX and FINISH_REASON: is this model orpheus_tts?", self.request_id)
        if tensors.index != self._next_index:
            raise StreamBroken(f"chunk {tensors.index} came where chunk {self._next_index} was due", self.request_id)
        self._next_index += 1
        self._timeline.add(tensors.audio, at_s)
        if tensors.finish_reason:
            self._finish(tensors.finish_reason)
        return Chunk(tensors.audio, tensors.index, at_s - self._timeline.started_s) if len(tensors.audio) else None

    def _finish(self, reason: str) -> None:
        self.finish_reason = reason
        if reason == "cancelled":
            raise StreamBroken("the stream was cancelled by somebody else, or the server is shutting down", self.request_id)
        if not self._timeline.is_audible:
            samples = sum(self._timeline.timings().chunk_samples)
            raise EmptySpeech(f"the stream ended with {samples} samples, all silent", self.request_id)

    def _lost(self, error: OrpheusError) -> OrpheusError:
        """An error after the first audio is a broken stream, whatever its cause."""
        if not self._timeline.has_audio:
            return error
        broken = StreamBroken(f"the stream broke after {self._next_index} chunks: {error}", self.request_id)
        broken.__cause__ = error
        return broken

    def remaining_s(self, now_s: float) -> float | None:
        """Seconds until the next deadline, 0 where it has passed; None without any."""
        deadline = self._deadline()
        return None if deadline is None else max(0.0, deadline[0] - now_s)

    def expired(self) -> TimeoutExceeded:
        """The error of the deadline that comes next."""
        deadline = self._deadline()
        assert deadline is not None, "without a deadline nothing expires"
        return deadline[1](deadline[2], self.request_id)

    def _deadline(self) -> tuple[float, type[TimeoutExceeded], str] | None:
        limits = self.timeouts
        found: list[tuple[float, type[TimeoutExceeded], str]] = []
        if self._timeline.has_audio:
            if limits.between_chunks_s is not None:
                text = f"no chunk for {limits.between_chunks_s:g} s after chunk {self._next_index - 1}"
                found.append((self._timeline.last_s + limits.between_chunks_s, ChunkTimeout, text))
        elif limits.first_audio_s is not None:
            found.append((self._attempt_s + limits.first_audio_s, FirstAudioTimeout, f"no audio within {limits.first_audio_s:g} s"))
        if limits.total_s is not None:
            found.append((self._timeline.started_s + limits.total_s, TotalTimeout, f"not complete within {limits.total_s:g} s"))
        return min(found, key=lambda deadline: deadline[0], default=None)

    def retry_delay_s(self, error: OrpheusError, now_s: float) -> float | None:
        """How long to wait before another attempt, None for no more. Never after audio has come, for it may have been heard."""
        if not error.retryable or self._timeline.has_audio or self._attempt >= self._retries:
            return None
        delay_s = min(FIRST_RETRY_S * 2**self._attempt, LONGEST_RETRY_S) * random.uniform(0.5, 1.0)
        total_s = self.timeouts.total_s
        if total_s is not None and now_s + delay_s >= self._timeline.started_s + total_s:
            return None
        return delay_s

    def restart(self, now_s: float) -> None:
        """Begin the next attempt, under a new request id, for the last attempt's may still be alive on the server."""
        self._attempt += 1
        self._attempt_s = now_s
        self._next_index = 0
        self.finish_reason = ""
        self.request_id = uuid.uuid4().hex
