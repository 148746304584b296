"""The real OpenVINO engine on the embedded voice's model."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from speech_lm.engines import EngineError, EngineOptions, Generation, Sampling
from speech_lm.engines.openvino import OpenVinoEngine
from speech_lm.voice import load_voice
from support.generations import Heard, hear, run

T = TypeVar("T")
VERSION_FOLDER = Path(__file__).parents[3] / "model_repository" / "orpheus_lm" / "1"
POCKET = VERSION_FOLDER / "pocket"
VOICE = load_voice(POCKET)
SPACE, PROMPT = VOICE.tokens, VOICE.prompt.ids(range(20, 50))
NEVER: frozenset[int] = frozenset()


class Do(Protocol):
    """Runs to the end on the loop that the shared engine lives on."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


@pytest.fixture(scope="module")
def do() -> Iterator[Do]:
    loop = asyncio.new_event_loop()

    def run_until_complete(work: Coroutine[Any, Any, T]) -> T:
        return loop.run_until_complete(asyncio.wait_for(work, 60))

    yield run_until_complete
    loop.close()


@pytest.fixture(scope="module")
def engine(do: Do) -> Iterator[OpenVinoEngine]:
    made = OpenVinoEngine(POCKET, EngineOptions(threads=0, max_streams=4, kv_cache_tokens=4096))
    do(made.start())
    yield made
    do(made.close())


def sampling(
    seed: int | None = 0, *, max_tokens: int = 1000, temperature: float = 0.6, stop_ids: frozenset[int] = SPACE.end_ids
) -> Sampling:
    return Sampling(temperature, 0.9, 0, 1.0, seed, max_tokens, stop_ids)


def pid(engine: OpenVinoEngine) -> int:
    assert engine.worker_pid is not None
    return engine.worker_pid


def test_speech_comes_token_by_token_and_ends_with_the_end_id(engine: OpenVinoEngine, do: Do) -> None:
    heard = do(hear(engine.submit(PROMPT, sampling())))
    assert heard.finish_reason == "stop"
    assert heard.ids[-1] in SPACE.end_ids
    assert len(heard.updates) > len(heard.ids) // 2
    places = [SPACE.locate(i) for i in heard.ids[:21]]
    assert [place and place[0] for place in places] == [n % 7 for n in range(21)]


def test_max_tokens_bounds_it(engine: OpenVinoEngine, do: Do) -> None:
    heard = do(hear(engine.submit(PROMPT, sampling(max_tokens=20))))
    assert (len(heard.ids), heard.finish_reason) == (20, "length")


def test_the_seed_decides_and_none_is_a_new_one(engine: OpenVinoEngine, do: Do) -> None:
    def said(seed: int | None, temperature: float = 1.0) -> list[int]:
        return do(hear(engine.submit(PROMPT, sampling(seed, max_tokens=40, temperature=temperature)))).ids

    assert said(5) == said(5)
    assert said(5) != said(6)
    assert said(None) != said(None)
    assert said(5, temperature=0) == said(6, temperature=0)
    assert said(2**62) == said(2**62)


def test_more_generations_than_fit_are_all_served_and_never_mixed_up(engine: OpenVinoEngine, do: Do) -> None:
    async def all_at_once() -> list[Heard]:
        generations = [engine.submit(PROMPT[: 5 + n], sampling(n, max_tokens=10 + n, stop_ids=NEVER)) for n in range(20)]
        return await asyncio.gather(*map(hear, generations))

    assert [(len(heard.ids), heard.finish_reason) for heard in do(all_at_once())] == [(10 + n, "length") for n in range(20)]


def test_abort_ends_it_and_frees_its_place(engine: OpenVinoEngine, do: Do) -> None:
    async def scenario() -> tuple[Heard, Heard]:
        endless = [engine.submit(PROMPT, sampling(n, max_tokens=3000, stop_ids=NEVER)) for n in range(4)]
        await asyncio.gather(*(anext(aiter(generation)) for generation in endless))
        waiting = asyncio.create_task(hear(engine.submit(PROMPT, sampling(max_tokens=30))))
        for generation in endless:
            generation.abort()
            generation.abort()
        return await hear(endless[0]), await waiting

    aborted, waited = do(scenario())
    assert aborted == Heard(finish_reason="cancelled")
    assert len(waited.ids) == 30


def test_a_request_that_cannot_be_served_fails_alone(engine: OpenVinoEngine, do: Do) -> None:
    async def scenario() -> list[Heard]:
        limit = engine.max_context_tokens
        assert limit is not None
        good, empty = engine.submit(PROMPT, sampling()), engine.submit([], sampling())
        return await asyncio.gather(*map(hear, (good, empty, engine.submit(PROMPT, sampling(max_tokens=limit, stop_ids=NEVER)))))

    good, empty, long = do(scenario())
    assert good.finish_reason == "stop"
    assert empty.error is not None
    assert long.error is not None
    assert "key-value cache" in str(long.error)


def test_cache_and_memory_hold_hundreds_of_generations_half_of_them_aborted(engine: OpenVinoEngine, do: Do) -> None:
    async def aborted_after(generation: Generation, updates: int) -> None:
        stream = aiter(generation)
        for _ in range(updates):
            await anext(stream)
        generation.abort()

    async def rounds(count: int) -> None:
        for n in range(count):
            spoken = [hear(engine.submit(PROMPT, sampling(n + k, max_tokens=40, stop_ids=NEVER))) for k in range(4)]
            given_up = [aborted_after(engine.submit(PROMPT, sampling(n + k, max_tokens=3000, stop_ids=NEVER)), 3 + k) for k in range(4)]
            heard = await asyncio.gather(*spoken, *given_up)
            assert all(each is None or len(each.ids) == 40 for each in heard)

    def memory_mb() -> float:
        return int(Path(f"/proc/{pid(engine)}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    do(rounds(20))
    before = memory_mb()
    do(rounds(40))
    assert memory_mb() - before < 20


def test_a_dead_worker_fails_all_that_run_and_has_a_successor() -> None:
    async def scenario() -> tuple[list[Heard], Heard, Heard]:
        engine = OpenVinoEngine(POCKET, EngineOptions(threads=0, max_streams=3))
        await engine.start()
        running = [engine.submit(PROMPT, sampling(n, max_tokens=3000, stop_ids=NEVER)) for n in range(5)]
        await anext(aiter(running[0]))
        os.kill(pid(engine), signal.SIGKILL)
        dead = await asyncio.gather(*map(hear, running))
        meanwhile = await hear(engine.submit(PROMPT, sampling()))
        served = meanwhile
        deadline = time.monotonic() + 60
        while served.error is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            served = await hear(engine.submit(PROMPT, sampling()))
        await engine.close()
        return dead, meanwhile, served

    dead, meanwhile, served = run(scenario(), 120)
    assert all("signal 9" in str(heard.error) for heard in dead)
    assert meanwhile.error is not None
    assert served.finish_reason == "stop"


def test_close_ends_what_runs_and_the_process() -> None:
    async def scenario() -> tuple[list[Heard], Heard, int]:
        engine = OpenVinoEngine(POCKET, EngineOptions(threads=1, max_streams=2))
        await engine.start()
        running = [engine.submit(PROMPT, sampling(n, max_tokens=3000, stop_ids=NEVER)) for n in range(3)]
        await anext(aiter(running[0]))
        process = pid(engine)
        await engine.close()
        return [await hear(each) for each in running], await hear(engine.submit(PROMPT, sampling())), process

    ended, after, process = run(scenario(), 120)
    assert ended == [Heard(finish_reason="cancelled")] * 3
    assert "closed" in str(after.error)
    assert not Path(f"/proc/{process}").exists()


def test_a_folder_without_a_model_or_with_a_broken_one_is_refused(tmp_path: Path) -> None:
    engine = OpenVinoEngine(tmp_path, EngineOptions(threads=0, max_streams=1))
    with pytest.raises(EngineError, match="holds no openvino_model"):
        run(engine.start())
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    with pytest.raises(EngineError, match="OpenVINO failed"):
        run(engine.start())


def test_the_worker_sends_no_usage_events() -> None:
    code = "import speech_lm.engines.openvino_worker as w, sys; w.openvino_genai(); assert sys.modules['openvino_telemetry'] is None"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(VERSION_FOLDER)})
