"""The codec behind Triton's dynamic batcher: our tiles and acknowledgements, forwards that take what they cost, no audio."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snac_codec.acks import Acknowledger
from snac_codec.batching import forwards_of
from snac_codec.config import CodecConfig
from snac_codec.tiles import Tile, cut
from snac_codec.window import Window
from speech_lm.stream import CODEC_QUEUE_S, Chunk

from simulation.cores import Cores
from simulation.costs import Costs
from simulation.listener import Listener

MAX_BATCH = 64
"""max_batch_size of snac_decoder/config.pbtxt."""


@dataclass(frozen=True)
class _Waiting:
    chunk: Chunk
    listener: Listener
    since: float


class SimulatedCodec:
    """windows, batches: served so far."""

    def __init__(self, costs: Costs, cores: Cores, config: CodecConfig, tables: Path) -> None:
        self._costs, self._cores, self._config = costs, cores, config
        loop = asyncio.get_running_loop()
        self._acknowledger = Acknowledger(tables, lambda: int(1e9 * loop.time()))
        self._queue: list[_Waiting] = []
        self._filled = asyncio.Event()
        self._calls = asyncio.Semaphore(costs.calls)
        self._hand_overs: set[asyncio.Task[None]] = set()
        self._task = loop.create_task(self._serve())
        self.windows = self.batches = 0

    def take(self, chunk: Chunk, listener: Listener) -> None:
        self._soon(self._take(chunk, listener))

    async def _pass_on(self) -> None:
        """One of the two ways of a window: to the codec, and from it to the listener."""
        await asyncio.sleep(self._costs.window_delay_s / 2)
        await self._cores.work(self._costs.window_core_s / 2)

    async def _take(self, chunk: Chunk, listener: Listener) -> None:
        await self._pass_on()
        self._queue.append(_Waiting(chunk, listener, asyncio.get_running_loop().time()))
        self._filled.set()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            if len(self._queue) < MAX_BATCH:
                await asyncio.sleep(self._queue[0].since + CODEC_QUEUE_S - loop.time())
            batch, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
            self.windows += len(batch)
            self.batches += 1
            self._acknowledger.batch_started({waiting.chunk.ticket[0] for waiting in batch})
            await self._decode(batch)
            self._acknowledger.batch_finished()
            for waiting in batch:
                self._soon(self._deliver(waiting))

    async def _decode(self, batch: Sequence[_Waiting]) -> None:
        """Windows are acknowledged as soon as their last tile is there, and answered all together."""
        tiles: list[Tile] = []
        for number, waiting in enumerate(batch):
            of_window = cut(number, _codecs_window(waiting.chunk), self._config, self._costs.tile_sizes)
            tiles += of_window
            if not of_window:
                self._acknowledge(waiting)
        missing = Counter(tile.window for tile in tiles)

        async def forward(together: Sequence[Tile]) -> None:
            async with self._calls:
                await self._cores.work(self._costs.forward_s[together[0].n_latents](len(together)))
            for tile in together:
                missing[tile.window] -= 1
                if not missing[tile.window]:
                    self._acknowledge(batch[tile.window])

        await asyncio.gather(*(forward(together) for together in forwards_of(tiles, self._costs.max_rows)))

    def _acknowledge(self, waiting: _Waiting) -> None:
        self._acknowledger.acknowledge(waiting.chunk.ticket, waiting.chunk.index)

    async def _deliver(self, waiting: _Waiting) -> None:
        await self._pass_on()
        waiting.listener.hear(waiting.chunk.window.n_samples, waiting.chunk.finish_reason)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._hand_overs.add(task)
        task.add_done_callback(self._hand_overs.discard)


def _codecs_window(chunk: Chunk) -> Window:
    window = chunk.window
    return Window(window.codes, window.first_frame, window.first_sample, window.n_samples)
