"""OpenVINO GenAI's continuous batching on a thread of its own: any x86 or Arm processor, token ids in and out.

Seen with openvino-genai 2026.4.1:
- `step()` keeps Python's global lock. The thread lets others run between steps, and a step is kept short by a bound on its tokens.
- Kernels are compiled per number of tokens in a step, 10 to 80 ms each. The bound makes their number small, so all are compiled before the server is
  ready; without it each new length of a prompt would pay for one.
- A `GenerationConfig` without stop ids is refused (its eos id of -1 counts as one), so both are always set.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .base import EngineError, EngineOptions, Sampling

STEP_TOKENS = 64
"""Tokens of one step, of all generations together; longer prompts take several steps, so nobody's next token waits for a long one."""
WARM_UP_TOKEN = 0

Item = "list[int] | str | EngineError"


@dataclass(eq=False)
class OpenVinoGeneration:
    """What the reader of a generation holds. `items` gets lists of ids, then once the finish reason or an error."""

    prompt_ids: list[int]
    sampling: Sampling
    engine: OpenVinoEngine
    items: asyncio.Queue[list[int] | str | EngineError] = field(default_factory=asyncio.Queue[Any])
    finish_reason: str | None = None
    aborted: bool = False

    def abort(self) -> None:
        if not self.aborted and self.finish_reason is None:
            self.aborted = True
            self.engine.abort(self)

    async def __aiter__(self) -> AsyncIterator[list[int]]:
        while True:
            item = await self.items.get()
            if isinstance(item, list):
                yield item
            elif isinstance(item, EngineError):
                raise item
            else:
                self.finish_reason = item
                return


@dataclass(frozen=True)
class _Abort:
    generation: OpenVinoGeneration


class _Close:
    pass


class OpenVinoEngine:
    """folder: openvino_model.xml and .bin (scripts/export_lm.py)."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder, self._options = folder, options
        self._commands: queue.SimpleQueue[OpenVinoGeneration | _Abort | _Close] = queue.SimpleQueue()
        self._failure: EngineError | None = None

    @property
    def max_context_tokens(self) -> int | None:
        return None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, args=(ready,), name="openvino", daemon=True)
        self._thread.start()
        await ready

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> OpenVinoGeneration:
        generation = OpenVinoGeneration(list(prompt_ids), sampling, self)
        if self._failure is not None:
            generation.items.put_nowait(self._failure)
        else:
            self._commands.put(generation)
        return generation

    def abort(self, generation: OpenVinoGeneration) -> None:
        """Called by the generation itself."""
        self._commands.put(_Abort(generation))

    async def close(self) -> None:
        self._commands.put(_Close())
        await asyncio.to_thread(self._thread.join)

    def _work(self, ready: asyncio.Future[None]) -> None:
        """The thread: load, warm up, then step while there is something to generate and sleep while there is not."""
        try:
            runner = _Runner(self._folder, self._options)
            runner.warm_up(self._options.max_streams)
        except Exception as error:
            failure = EngineError(f"OpenVINO cannot serve {self._folder}: {error}")
            self._loop.call_soon_threadsafe(ready.set_exception, failure)
            return
        self._loop.call_soon_threadsafe(ready.set_result, None)
        try:
            while True:
                for command in self._waiting_commands(block=not runner.live):
                    if isinstance(command, _Close):
                        self._deliver([(generation, "cancelled") for generation in runner.live])
                        return
                    if isinstance(command, _Abort):
                        runner.cancel(command.generation)
                    else:
                        runner.add(command)
                self._deliver(runner.step())
                time.sleep(0)  # whoever waits for the global lock gets it now
        except Exception as error:
            failure = EngineError(f"OpenVINO failed: {error}")
            lost = [*runner.live, *(c for c in self._waiting_commands(block=False) if isinstance(c, OpenVinoGeneration))]
            self._loop.call_soon_threadsafe(self._fail, failure, lost)

    def _fail(self, failure: EngineError, lost: Iterable[OpenVinoGeneration]) -> None:
        """On the loop: nothing submitted before or after waits for ever."""
        self._failure = failure
        for generation in lost:
            generation.items.put_nowait(failure)
        while not self._commands.empty():
            late = self._commands.get_nowait()
            if isinstance(late, OpenVinoGeneration):
                late.items.put_nowait(failure)

    def _waiting_commands(self, block: bool) -> Iterable[OpenVinoGeneration | _Abort | _Close]:
        try:
            if block:
                yield self._commands.get()
            while True:
                yield self._commands.get_nowait()
        except queue.Empty:
            return

    def _deliver(self, items: list[tuple[OpenVinoGeneration, list[int] | str]]) -> None:
        """One hop to the loop per step, whatever the number of generations."""
        if items:
            self._loop.call_soon_threadsafe(lambda: [generation.items.put_nowait(item) for generation, item in items])


class _Runner:
    """The pipeline and its running generations; used on the engine's thread alone."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        import openvino
        import openvino_genai as genai

        self._genai: Any = genai
        self._tensor: Any = openvino.Tensor
        scheduler: Any = genai.SchedulerConfig()
        scheduler.max_num_seqs = options.max_streams
        scheduler.max_num_batched_tokens = max(STEP_TOKENS, options.max_streams)
        scheduler.dynamic_split_fuse = True
        scheduler.enable_prefix_caching = False
        properties: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
        if options.threads:
            properties["INFERENCE_NUM_THREADS"] = options.threads
        self._pipeline: Any = genai.ContinuousBatchingPipeline(str(folder), scheduler, "CPU", properties)
        self._next_id = 0
        self.live: dict[OpenVinoGeneration, Any] = {}

    def add(self, generation: OpenVinoGeneration) -> None:
        if generation.aborted:
            generation.engine._loop.call_soon_threadsafe(generation.items.put_nowait, "cancelled")
            return
        self.live[generation] = self._request(generation.prompt_ids, self._config(generation.sampling))

    def cancel(self, generation: OpenVinoGeneration) -> None:
        handle = self.live.get(generation)
        if handle is not None:
            handle.cancel()

    def step(self) -> list[tuple[OpenVinoGeneration, list[int] | str]]:
        """One step of all generations: their new ids, and the finish reason of those that ended."""
        self._pipeline.step()
        running = self._genai.GenerationStatus.RUNNING
        items: list[tuple[OpenVinoGeneration, list[int] | str]] = []
        for generation, handle in list(self.live.items()):
            status, ids = handle.get_status(), list[int]()
            while handle.can_read():
                for output in handle.read().values():
                    ids += output.generated_ids
            if ids:
                items.append((generation, ids))
            if status != running:
                items.append((generation, self._reason(generation, ids)))
                del self.live[generation]
        return items

    def _reason(self, generation: OpenVinoGeneration, ids: list[int]) -> str:
        if generation.aborted:
            return "cancelled"
        return "stop" if ids and ids[-1] in generation.sampling.stop_ids else "length"

    def warm_up(self, max_streams: int) -> None:
        """Compile the kernels of every number of tokens in a step and of every number of generations."""
        sampling = Sampling(temperature=1.0, top_p=0.9, top_k=0, repetition_penalty=1.1, seed=0, max_tokens=1, stop_ids=frozenset({WARM_UP_TOKEN}))
        config = self._config(sampling)
        config.ignore_eos = True
        for tokens in range(1, max(STEP_TOKENS, max_streams) + 1):
            self._run([self._request([WARM_UP_TOKEN] * tokens, config)])
        config.max_new_tokens = 3
        for generations in range(1, max_streams + 1):
            self._run([self._request([WARM_UP_TOKEN], config) for _ in range(generations)])

    def _run(self, handles: list[Any]) -> None:
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
            for handle in handles:
                while handle.can_read():
                    handle.read()

    def _request(self, prompt_ids: list[int], config: Any) -> Any:
        import numpy as np

        self._next_id += 1
        return self._pipeline.add_request(self._next_id, self._tensor(np.array([prompt_ids], np.int64)), config)

    def _config(self, sampling: Sampling) -> Any:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = sampling.max_tokens
        config.stop_token_ids = set(sampling.stop_ids)
        config.eos_token_id = min(sampling.stop_ids)
        config.repetition_penalty = sampling.repetition_penalty
        config.do_sample = sampling.temperature > 0
        if config.do_sample:
            config.temperature = sampling.temperature
            config.top_p = sampling.top_p
            if sampling.top_k:
                config.top_k = sampling.top_k
            config.rng_seed = sampling.seed if sampling.seed is not None else time.monotonic_ns()
        return config
