"""Streams from request to last window, with an engine that plays what the test wants and a codec that acknowledges when told to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from speech_lm.acks import AckTable
from speech_lm.engines.base import EngineError, Sampling
from speech_lm.errors import InvalidRequest, NoAudio, Overloaded
from speech_lm.frontends import Frontend
from speech_lm.metrics import Metrics
from speech_lm.prompt import PromptFormat
from speech_lm.requests import SpeechRequest
from speech_lm.service import SpeechService
from speech_lm.settings import Settings
from speech_lm.stream import Chunk
from speech_lm.tokens import TokenSpace
from speech_lm.voice import FrontendSpec, LengthRule, SamplingDefaults, Voice
from speech_lm.windows import CodecShape

END = 4
SPACE = TokenSpace(audio_base=256, codebook_size=512, end_ids=frozenset({END}))
VOICE = Voice(
    name="test", folder=Path("/nowhere"), tokens=SPACE, prompt=PromptFormat((1,), "{text}", (3,)), frontend=FrontendSpec("text", ""),
    voices=("one", "two"), describes_voices=False, sampling=SamplingDefaults(0.6, 0.9, 0, 1.1), length=LengthRule(10, 2.0, 30),
    codec=CodecShape(10),
)  # fmt: skip
SETTINGS = Settings(
    engine="fake", folder="", threads=0, max_streams=2, max_text_characters=1000, max_chunk_frames=8, comfort_ms=300, lookahead_latents=-1,
    max_outstanding_windows=2, dead_stream_ms=200, segments_ahead=1,
)  # fmt: skip
REQUEST = SpeechRequest(
    request_id="r", text="Hello there.", voice="one", temperature=0.6, top_p=0.9, top_k=0, repetition_penalty=1.1, max_tokens=None, seed=5,
    chunk_frames=0, standalone=False,
)  # fmt: skip


def speech(n_frames: int, code: int = 7) -> list[int]:
    return [SPACE.token_id(slot, code) for _ in range(n_frames) for slot in range(7)]


@dataclass
class FakeGeneration:
    """Plays `updates`; an exception among them is raised; "wait" waits for ever (until aborted); ends with `end`."""

    updates: list[list[int] | Exception | str]
    end: str = "stop"
    finish_reason: str | None = None
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        self.aborted.set()

    async def __aiter__(self) -> AsyncIterator[list[int]]:
        for update in self.updates:
            if isinstance(update, Exception):
                raise update
            if update == "wait":
                await self.aborted.wait()
            if self.aborted.is_set():
                self.finish_reason = "cancelled"
                return
            if isinstance(update, list):
                yield update
            await asyncio.sleep(0)
        self.finish_reason = self.end


@dataclass
class FakeEngine:
    plays: list[FakeGeneration]
    submitted: list[tuple[list[int], Sampling]] = field(default_factory=list[tuple[list[int], Sampling]])
    max_context_tokens: int | None = None
    closed: bool = False

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> Any:
        self.submitted.append((list(prompt_ids), sampling))
        return self.plays[len(self.submitted) - 1]

    async def start(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


@dataclass
class RecordingSink:
    """Keeps what it is given and lets the codec acknowledge at once, unless told not to."""

    table: AckTable
    acknowledges: bool = True
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    error: BaseException | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, chunk: Chunk) -> None:
        assert not self.done.is_set(), "nothing may follow the last chunk"
        self.chunks.append(chunk)
        if self.acknowledges:
            self.acknowledge(chunk)
        if chunk.is_last:
            self.done.set()

    def acknowledge(self, chunk: Chunk) -> None:
        _, slot, generation = chunk.ticket
        np.memmap(self.table.path, "<i8", "r+")[8 + 2 * slot + 1] = generation << 32 | (chunk.index + 1)

    def fail(self, error: BaseException) -> None:
        assert not self.done.is_set()
        self.error = error
        self.done.set()

    @property
    def samples(self) -> int:
        return sum(c.window.n_samples for c in self.chunks)


@dataclass
class World:
    engine: FakeEngine
    metrics: Metrics
    table: AckTable
    service: SpeechService

    def sink(self, **options: Any) -> RecordingSink:
        return RecordingSink(self.table, **options)


def world(tmp_path: Path, *plays: FakeGeneration, voice: Voice = VOICE, context: int | None = None) -> World:
    engine, metrics, table = FakeEngine(list(plays), max_context_tokens=context), Metrics(), AckTable(SETTINGS.max_streams, tmp_path)
    frontend = Frontend(voice.prompt, str, lambda text: [8 + ord(c) % 200 for c in text])
    return World(engine, metrics, table, SpeechService(voice, frontend, engine, SETTINGS, metrics, table))


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    return lambda work: asyncio.run(asyncio.wait_for(work, 20))


def test_an_utterance(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(20), [END]]))
        sink = w.sink()
        w.service.speak(REQUEST, sink)
        await sink.done.wait()
        assert sink.samples == 20 * 2048
        assert [c.index for c in sink.chunks] == list(range(len(sink.chunks)))
        assert [c.finish_reason for c in sink.chunks] == [""] * (len(sink.chunks) - 1) + ["stop"]
        prompt, sampling = w.engine.submitted[0]
        assert prompt[0] == 1
        assert prompt[-1] == 3
        assert sampling.stop_ids == {END}
        assert sampling.max_tokens == 7 * (10 + 2 * len("Hello there."))
        assert w.metrics.totals["frames_total"] == 20
        await w.service.close()
        assert w.metrics.outcomes == {"stop": 1}
        assert w.metrics.active_streams == w.metrics.active_generations == w.metrics.outstanding_windows == 0
        assert w.engine.closed
        assert not list(tmp_path.iterdir())

    run(scenario())


def test_an_endless_model_is_cut_by_its_bound_and_says_so(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(12)], end="length"))
        sink = w.sink()
        w.service.speak(replace(REQUEST, max_tokens=84), sink)
        await sink.done.wait()
        assert w.engine.submitted[0][1].max_tokens == 84
        assert sink.chunks[-1].finish_reason == "length"
        assert sink.samples == 12 * 2048

    run(scenario())


@pytest.mark.parametrize("updates", [[[END]], [[99] * 40, [END]], [speech(1)[:6], [END]]])
def test_no_frame_of_audio_is_an_error(tmp_path: Path, run: Any, updates: list[list[int]]) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration(list(updates)))
        sink = w.sink()
        w.service.speak(REQUEST, sink)
        await sink.done.wait()
        assert isinstance(sink.error, NoAudio)
        assert not sink.chunks

    run(scenario())


def test_an_engine_that_fails_in_mid_stream_is_an_error_and_frees_the_slot(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(5), EngineError("out of memory")]), FakeGeneration([speech(4), [END]]))
        broken, sound = w.sink(), w.sink()
        w.service.speak(REQUEST, broken)
        await broken.done.wait()
        assert broken.chunks
        assert "out of memory" in str(broken.error)
        assert all(not c.is_last for c in broken.chunks)
        w.service.speak(REQUEST, sound)
        await sound.done.wait()
        assert sound.samples == 4 * 2048
        await w.service.close()
        assert w.metrics.outcomes == {"failed": 1, "stop": 1}

    run(scenario())


def test_segments_are_spoken_in_order_with_one_window_planner(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        plays = [FakeGeneration([speech(6, code), [END]]) for code in (11, 22, 33)]
        w = world(tmp_path, *plays)
        sink = w.sink()
        w.service.speak(replace(REQUEST, text="This is the first one. This is the second one. And this the third."), sink)
        await sink.done.wait()
        assert len(w.engine.submitted) == 3
        assert [s.seed for _, s in w.engine.submitted] == [5, 6, 7]
        assert sink.samples == 18 * 2048
        heard: dict[int, int] = {}
        for chunk in sink.chunks:
            for at, code in enumerate(chunk.window.codes[::7]):
                assert heard.setdefault(chunk.window.first_frame + at, int(code)) == code
        assert [heard[i] for i in range(18)] == [11] * 6 + [22] * 6 + [33] * 6

    run(scenario())


def test_a_segment_without_anything_to_say_is_passed_over(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(6), [END]]))
        sink = w.sink()
        w.service.speak(replace(REQUEST, text="?!?!?!?!?!?!?!?!?!?!?! Then a sentence that speaks."), sink)
        await sink.done.wait()
        assert sink.samples == 6 * 2048

    run(scenario())


def test_nothing_to_say_is_refused_before_the_engine(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path)
        sink = w.sink()
        assert w.service.speak(replace(REQUEST, text="?!"), sink) is None
        assert isinstance(sink.error, InvalidRequest)
        assert not w.engine.submitted

    run(scenario())


def test_one_stream_too_many_is_refused_at_once_and_then_all_is_normal(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration(["wait"]), FakeGeneration(["wait"]), FakeGeneration([speech(3), [END]]))
        first, second, third = w.sink(), w.sink(), w.sink()
        w.service.speak(REQUEST, first)
        w.service.speak(REQUEST, second)
        w.service.speak(REQUEST, third)
        assert isinstance(third.error, Overloaded)
        assert w.service.stop("r") == 2
        await first.done.wait()
        await second.done.wait()
        await asyncio.sleep(0.01)
        later = w.sink()
        w.service.speak(REQUEST, later)
        await later.done.wait()
        assert later.samples == 3 * 2048

    run(scenario())


def test_stop_ends_the_stream_and_the_generation(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        play = FakeGeneration([speech(4), "wait"])
        w = world(tmp_path, play)
        sink = w.sink()
        w.service.speak(REQUEST, sink)
        while not sink.chunks:
            await asyncio.sleep(0.001)
        assert w.service.stop("another") == 0
        assert w.service.stop("r") == 1
        await sink.done.wait()
        assert sink.chunks[-1].finish_reason == "cancelled"
        assert sink.chunks[-1].window.n_samples == 0
        await w.service.close()
        assert play.aborted.is_set()
        assert w.metrics.cancels == {"stop_request": 1}

    run(scenario())


def test_flow_control_holds_windows_back(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(40), [END]]))
        sink = w.sink(acknowledges=False)
        w.service.speak(replace(REQUEST, chunk_frames=1), sink)
        await asyncio.sleep(0.05)
        assert len(sink.chunks) == 1, "the first window goes alone"
        np.memmap(w.table.path, "<i8", "r+")[3] = time.monotonic_ns()
        await asyncio.sleep(0.05)
        assert len(sink.chunks) == SETTINGS.max_outstanding_windows, "but only until the codec has taken it"
        sink.acknowledge(sink.chunks[0])
        await asyncio.sleep(0.05)
        assert len(sink.chunks) == 1 + SETTINGS.max_outstanding_windows
        sink.acknowledge(sink.chunks[1])
        await asyncio.sleep(0.05)
        assert len(sink.chunks) == 2 + SETTINGS.max_outstanding_windows
        sink.acknowledges = True
        sink.acknowledge(sink.chunks[-1])
        await sink.done.wait()
        assert sink.samples == 40 * 2048

    run(scenario())


def test_a_listener_that_vanished_frees_everything(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        play = FakeGeneration([speech(40), "wait"])
        w = world(tmp_path, play)
        sink = w.sink(acknowledges=False)
        w.service.speak(REQUEST, sink)
        await asyncio.wait_for(sink.done.wait(), 5)
        assert sink.chunks[-1].finish_reason == "cancelled"
        await w.service.close()
        assert play.aborted.is_set()
        assert w.metrics.cancels == {"no_acknowledgement": 1}
        assert w.metrics.outstanding_windows == 0

    run(scenario())


def test_a_standalone_stream_has_no_flow_control(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(40), [END]]))
        sink = w.sink(acknowledges=False)
        w.service.speak(replace(REQUEST, standalone=True, chunk_frames=1), sink)
        await sink.done.wait()
        assert sink.samples == 40 * 2048
        assert {c.ticket for c in sink.chunks} == {(0, 0, 0)}

    run(scenario())


def test_the_context_bounds_a_generation(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        w = world(tmp_path, FakeGeneration([speech(3), [END]]), context=60)
        sink = w.sink()
        w.service.speak(REQUEST, sink)
        await sink.done.wait()
        prompt, sampling = w.engine.submitted[0]
        assert sampling.max_tokens == 60 - len(prompt)
        full = world(tmp_path, context=32)
        refused = full.sink()
        full.service.speak(replace(REQUEST, text="x" * 30), refused)
        assert isinstance(refused.error, InvalidRequest)
        assert not full.engine.submitted

    run(scenario())


def test_description(tmp_path: Path, run: Any) -> None:
    async def scenario() -> None:
        described = json.loads(world(tmp_path).service.describe())
        assert described["voices"] == ["one", "two"]
        assert described["sample_rate_hz"] == 24000
        assert described["limits"]["max_streams"] == 2

    run(scenario())
