"""A `Bench` without a server: the same traffic on our own service in simulated time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadgen import results
from loadgen.bench import Point, Traffic
from loadgen.driver import Job, Record
from loadgen.texts import drawn
from loadgen.traffic import start_times_s
from orpheus_client.measuring import summarise
from snac_codec.config import CodecConfig
from speech_lm.acks import AckTable
from speech_lm.frontends import Frontend
from speech_lm.metrics import Metrics
from speech_lm.requests import SpeechRequest
from speech_lm.service import SpeechService
from speech_lm.settings import Settings
from speech_lm.stream import Chunk
from speech_lm.voice import Voice

from simulation import virtual_time
from simulation.codec import SimulatedCodec
from simulation.cores import Cores
from simulation.costs import Costs
from simulation.engine import SimulatedEngine
from simulation.listener import Listener


@dataclass(frozen=True)
class Model:
    """What is served. frames_per_prompt_token: how long texts take to say, from a measurement."""

    voice: Voice
    frontend: Frontend
    codec: CodecConfig
    settings: Settings
    frames_per_prompt_token: float

    def frames_of(self, prompt_tokens: int) -> int:
        return max(1, round(self.frames_per_prompt_token * prompt_tokens))


@dataclass(frozen=True)
class _Sink:
    codec: SimulatedCodec
    listener: Listener

    def send(self, chunk: Chunk) -> None:
        self.codec.take(chunk, self.listener)

    def fail(self, error: BaseException) -> None:
        self.listener.fail(error)


class SimulatedBench:
    """Satisfies what `find_max` and the tables need of `loadgen.bench.Bench`. Nothing needs warming up."""

    def __init__(self, model: Model, costs: Costs, texts: Sequence[str], seed: int = 0) -> None:
        self.model, self.costs, self.texts, self._seed = model, costs, texts, seed

    def with_costs(self, costs: Costs) -> SimulatedBench:
        return SimulatedBench(self.model, costs, self.texts, self._seed)

    def warm_up(self, at_a_time: int) -> None:
        pass

    def measure(self, traffic: Traffic, n: int) -> Point:
        texts = drawn(self.texts, n, self._seed)
        jobs = [Job(text) for text in texts]
        if not traffic.concurrency:
            times = start_times_s(traffic.arrivals, traffic.rate_per_s, n, self._seed)
            jobs = [replace(job, due_s=due_s) for job, due_s in zip(jobs, times, strict=True)]
        with tempfile.TemporaryDirectory() as tables:
            records, mean_batch = virtual_time.run(self._serve(jobs, traffic.concurrency, Path(tables)))
        wall_s = max(record.began_s + record.run.timings.total_s for record in records) - records[0].began_s
        summary = summarise([record.run for record in records], wall_s)
        row = results.row({"traffic": str(traffic)}, summary, {"snac_decoder": {"mean_batch": round(mean_batch, 3)}})
        return Point(summary, row, results.raw(records, 0.0))

    async def _serve(self, jobs: Sequence[Job], concurrency: int, tables: Path) -> tuple[list[Record], float]:
        model, cores, loop = self.model, Cores(self.costs.cores), asyncio.get_running_loop()
        engine = SimulatedEngine(self.costs, cores, model.voice.tokens, model.frames_of)
        await engine.start()
        codec = SimulatedCodec(self.costs, cores, model.codec, tables)
        table = AckTable(model.settings.max_streams, tables)
        service = SpeechService(model.voice, model.frontend, engine, model.settings, Metrics(), table, loop.time)
        began, records = loop.time(), list[Record]()
        waiting = iter(enumerate(jobs))

        async def speak(number: int, job: Job) -> None:
            listener = Listener(job.text, model.codec.sampling_rate)
            service.speak(self._request(number, job.text), _Sink(codec, listener))
            records.append(Record(await listener.heard(), len(job.text), listener.began_s - began, 0.0))

        async def caller() -> None:
            for number, job in waiting:
                await speak(number, job)

        async def at_its_time(number: int, job: Job) -> None:
            await asyncio.sleep(job.due_s or 0.0)
            await speak(number, job)

        everybody = [caller() for _ in range(concurrency)] if concurrency else [at_its_time(number, job) for number, job in waiting]
        await asyncio.gather(*everybody)
        await service.close()
        records.sort(key=lambda record: record.began_s)
        return records, codec.windows / codec.batches

    def _request(self, number: int, text: str) -> SpeechRequest:
        voice = self.model.voice
        of = voice.sampling
        return SpeechRequest(
            request_id=f"{number}", text=text, voice=voice.voices[0], temperature=of.temperature, top_p=of.top_p, top_k=of.top_k,
            repetition_penalty=of.repetition_penalty, max_tokens=None, seed=number, chunk_frames=0, standalone=False,
        )  # fmt: skip
