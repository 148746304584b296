"""One segment of a stream: its prompt, its generation, and the frames that come out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from .engines.base import Engine, Generation, Sampling
from .framing import Frame, Framer, FramerState
from .metrics import Metrics


@dataclass
class Segment:
    """Fills `frames` as the engine delivers; whoever takes frames out of it removes them.

    done: no more frames will come; error: why, where the engine failed; hit_limit: the bound ended it, not the model.
    """

    prompt_ids: list[int]
    sampling: Sampling
    frames: list[Frame] = field(default_factory=list[Frame])
    produced_frames: int = 0
    done: bool = False
    error: BaseException | None = None
    hit_limit: bool = False
    _generation: Generation | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        return self._task is not None

    def start(self, engine: Engine, framer: Framer, metrics: Metrics, wake: Callable[[], None]) -> None:
        """Submit the prompt; `wake` is called whenever frames have come and at the end."""
        self._generation = engine.submit(self.prompt_ids, self.sampling)
        self._task = asyncio.get_running_loop().create_task(self._pump(self._generation, framer, metrics, wake))

    def abort(self) -> None:
        if self._generation is not None:
            self._generation.abort()

    async def join(self) -> None:
        """Wait until nothing of this segment runs any more."""
        if self._task is not None:
            await self._task

    async def _pump(self, generation: Generation, framer: Framer, metrics: Metrics, wake: Callable[[], None]) -> None:
        state = FramerState()
        metrics.active_generations += 1
        try:
            async for ids in generation:
                frames = framer.push(state, ids)
                if frames:
                    self.frames += frames
                    self.produced_frames += len(frames)
                    wake()
                if state.ended:
                    generation.abort()
                    break
            self.hit_limit = not state.ended and generation.finish_reason == "length"
        except Exception as error:
            self.error = error
        finally:
            metrics.active_generations -= 1
            metrics.totals["tokens_total"] += state.tokens
            metrics.totals["resyncs_total"] += state.resyncs
            metrics.totals["dropped_codes_total"] += state.dropped_codes
            metrics.totals["foreign_ids_total"] += state.foreign_ids
            metrics.totals["frames_total"] += self.produced_frames
            self.done = True
            wake()
