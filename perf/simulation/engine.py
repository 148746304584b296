"""The language model: continuous batching whose steps take what they cost. It says the code 0 for as long as a text takes, then ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from speech_lm.engines.base import Sampling
from speech_lm.engines.generation import FilledGeneration
from speech_lm.engines.openvino_worker import MAX_STEP_TOKENS
from speech_lm.tokens import SLOTS_PER_FRAME, TokenSpace

from simulation.cores import Cores
from simulation.costs import Costs


class _Running:
    """unread: tokens of the prompt not computed yet; left: tokens to say, the end included."""

    def __init__(self, generation: FilledGeneration, prompt: int, frames: int, most: int) -> None:
        self.generation, self.unread = generation, prompt
        self.frames, self.said, self.most = frames, 0, most

    def say(self, space: TokenSpace) -> None:
        if self.said == SLOTS_PER_FRAME * self.frames:
            self.generation.push([min(space.end_ids)])
            self.generation.finish("stop")
            return
        self.generation.push([space.token_id(self.said % SLOTS_PER_FRAME, 0)])
        self.said += 1
        if self.said == self.most:
            self.generation.finish("length")


class SimulatedEngine:
    """Satisfies `speech_lm.engines.Engine`. frames_of: frames of speech for a prompt of so many tokens."""

    def __init__(self, costs: Costs, cores: Cores, space: TokenSpace, frames_of: Callable[[int], int]) -> None:
        self._costs, self._cores, self._space, self._frames_of = costs, cores, space, frames_of
        self._running: list[_Running] = []
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def max_context_tokens(self) -> int | None:
        return None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._steps())

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> FilledGeneration:
        generation = FilledGeneration(lambda: None)
        self._running.append(_Running(generation, len(prompt_ids), self._frames_of(len(prompt_ids)), sampling.max_tokens))
        self._work.set()
        return generation

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _steps(self) -> None:
        while True:
            self._running = [running for running in self._running if not running.generation.ended]
            if not self._running:
                self._work.clear()
                await self._work.wait()
                continue
            stepping, prompt_tokens = self._next_step()
            await self._cores.work(self._costs.step_s(len(stepping)) + self._costs.prompt_token_s * prompt_tokens, self._costs.step_threads)
            for running in stepping:
                if not running.unread:
                    running.say(self._space)

    def _next_step(self) -> tuple[list[_Running], int]:
        """Who takes part, and how many tokens of prompts: as many as a step has room for, the oldest first."""
        room = MAX_STEP_TOKENS - sum(1 for running in self._running if not running.unread)
        stepping: list[_Running] = []
        read = 0
        for running in self._running:
            part = min(running.unread, max(0, room))
            if running.unread and not part:
                continue
            running.unread -= part
            room -= part
            read += part
            stepping.append(running)
        return stepping, read
