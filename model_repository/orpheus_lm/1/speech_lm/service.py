"""All streams of one loaded model: admission, STOP by request id, description, and the end of everything."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from .acks import AckTable
from .chunking import ChunkPolicy
from .engines.base import Engine, Sampling
from .errors import InvalidRequest, Overloaded, SpeechError
from .framing import Framer
from .frontends import Frontend, Reading
from .metrics import Metrics
from .requests import MAX_SEED, SpeechRequest
from .segment import Segment
from .segments import split_text
from .settings import Settings
from .stream import Sink, SpeechStream, StreamParts
from .tokens import SLOTS_PER_FRAME
from .voice import Voice
from .windows import WindowPlanner

log = logging.getLogger(__name__)


class SpeechService:
    """Runs on one event loop; every method is called from its thread."""

    def __init__(
        self, voice: Voice, frontend: Frontend, engine: Engine, settings: Settings, metrics: Metrics, table: AckTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        lookahead = settings.lookahead_latents if 0 <= settings.lookahead_latents < voice.codec.context_latents else None
        self._voice, self._frontend, self._engine, self._settings = voice, frontend, engine, settings
        self._metrics, self._table = metrics, table
        self._parts = StreamParts(
            engine=engine,
            framer=Framer(voice.tokens),
            planner=WindowPlanner(voice.codec, lookahead),
            table=table,
            metrics=metrics,
            clock=clock,
            max_outstanding=settings.max_outstanding_windows,
            dead_after_s=settings.dead_stream_ms / 1000,
            segments_ahead=settings.segments_ahead,
        )
        self._streams: dict[str, set[SpeechStream]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def speak(self, request: SpeechRequest, sink: Sink) -> SpeechStream | None:
        """Begin a stream; everything that happens to it from here on is told to the sink. None where it was refused."""
        try:
            if self._metrics.active_streams >= self._settings.max_streams:
                raise Overloaded(f"all {self._settings.max_streams} streams of this server are in use; try again later")
            segments = self._segments(request)
            first = next(segments, None)
            if first is None:
                raise InvalidRequest("TEXT holds nothing that can be spoken")
        except SpeechError as error:
            self._metrics.outcomes["refused" if isinstance(error, Overloaded) else "invalid"] += 1
            sink.fail(error)
            return None
        ticket = None if request.standalone else self._table.take()
        stream = SpeechStream(self._parts, self._policy(request.chunk_frames), _chain(first, segments), sink, ticket)
        self._metrics.active_streams += 1
        self._streams.setdefault(request.request_id, set()).add(stream)

        async def run() -> None:
            outcome = "failed"
            try:
                outcome = await stream.run()
            except Exception as error:
                if not isinstance(error, SpeechError):
                    log.exception("a stream failed")
                sink.fail(error)
            finally:
                self._metrics.outcomes[outcome] += 1
                self._metrics.active_streams -= 1
                if ticket is not None:
                    self._table.give_back(ticket)
                same_id = self._streams[request.request_id]
                same_id.discard(stream)
                if not same_id:
                    del self._streams[request.request_id]

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return stream

    def stop(self, request_id: str) -> int:
        """Cancel the running streams with this request id; -> how many there were."""
        streams = self._streams.get(request_id, set())
        for stream in streams:
            stream.cancel("stop_request")
        return len(streams)

    def describe(self) -> str:
        """What a client may want to know before it asks, as JSON."""
        voice, settings = self._voice, self._settings
        return json.dumps(
            {
                "model": voice.name,
                "voices": list(voice.voices),
                "sample_rate_hz": voice.codec.sample_rate_hz,
                "samples_per_frame": voice.codec.samples_per_frame,
                "defaults": asdict(voice.sampling),
                "limits": {
                    "max_streams": settings.max_streams,
                    "max_text_characters": settings.max_text_characters,
                    "max_chunk_frames": settings.max_chunk_frames,
                },
            }
        )

    async def close(self) -> None:
        """Cancel what runs, wait for it, and release the engine and the table."""
        for streams in self._streams.values():
            for stream in streams:
                stream.cancel("shutdown")
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._engine.close()
        self._table.close()

    def _policy(self, chunk_frames: int) -> ChunkPolicy:
        codec, planner, settings = self._voice.codec, self._parts.planner, self._settings
        return ChunkPolicy(
            frame_s=codec.frame_s,
            first_frames=planner.first_frames,
            context_s=planner.first_lookahead * codec.samples_per_latent / codec.sample_rate_hz,
            max_frames=settings.max_chunk_frames,
            comfort_s=settings.comfort_ms / 1000,
            fixed_frames=chunk_frames,
        )

    def _segments(self, request: SpeechRequest) -> Iterator[Segment]:
        """One after another, read only when asked for. A segment without anything to say is passed over."""
        seed = request.seed if request.seed is not None else random.getrandbits(62)
        for number, text in enumerate(split_text(request.text, self._voice.length.max_segment_characters)):
            reading = self._frontend.read(text, request.voice)
            if reading.characters:
                yield Segment(reading.prompt_ids, self._sampling(request, reading, (seed + number) % MAX_SEED))

    def _sampling(self, request: SpeechRequest, reading: Reading, seed: int) -> Sampling:
        bound = SLOTS_PER_FRAME * self._voice.length.max_frames(reading.characters)
        room = self._engine.max_context_tokens
        if room is not None:
            bound = min(bound, room - len(reading.prompt_ids))
            if bound < SLOTS_PER_FRAME:
                raise InvalidRequest(f"TEXT makes a prompt of {len(reading.prompt_ids)} tokens; the model's context holds {room}")
        return Sampling(
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            repetition_penalty=request.repetition_penalty,
            seed=seed,
            max_tokens=bound if request.max_tokens is None else min(bound, request.max_tokens),
            stop_ids=self._voice.tokens.end_ids,
        )


def _chain(first: Segment, rest: Iterator[Segment]) -> Iterator[Segment]:
    yield first
    yield from rest
