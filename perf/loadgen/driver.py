"""Utterances at a server: closed loop (so many callers, each calls again at once) or open loop (callers come when they come).

A closed loop waits for a slow server and so hides how long new callers would have waited; an open loop does not. What this process itself
was late with is in each record, and more processes share the work where that is too much.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from orpheus_client import AsyncClient, SpeechOptions
from orpheus_client.measuring import Run, speak

IMPORT_TIME_S = 3.0
"""What a new process gets to come up before the measurement begins."""


@dataclass(frozen=True)
class Job:
    """due_s: when to call, from the start of the measurement; None in a closed loop."""

    text: str
    due_s: float | None = None


@dataclass(frozen=True)
class Record:
    """began_s: when the call was made, from the start of the measurement; late_s: how much later than it was due."""

    run: Run
    characters: int
    began_s: float
    late_s: float


@dataclass(frozen=True)
class Load:
    """concurrency: the callers of a closed loop; 0 for an open loop. SEED and the like come in `options`."""

    url: str
    jobs: Sequence[Job]
    concurrency: int
    options: SpeechOptions


def run(load: Load, processes: int = 1) -> tuple[list[Record], float]:
    """-> the records, by beginning, and the seconds from the first beginning to the last end. Raises OrpheusError where the server cannot
    serve at all."""
    processes = min(processes, len(load.jobs), load.concurrency or len(load.jobs))
    if processes == 1:
        records = asyncio.run(_drive(load, time.monotonic()))
    else:
        began = time.monotonic() + IMPORT_TIME_S  # one clock for all processes of a machine
        shares = [
            Load(load.url, load.jobs[i::processes], len(range(i, load.concurrency, processes)), load.options) for i in range(processes)
        ]
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            records = [record for part in pool.map(_drive_alone, shares, [began] * processes) for record in part]
    records.sort(key=lambda record: record.began_s)
    first, last = records[0].began_s, max(record.began_s + record.run.timings.total_s for record in records)
    return records, last - first


def _drive_alone(load: Load, began: float) -> list[Record]:
    return asyncio.run(_drive(load, began))


async def _drive(load: Load, began: float) -> list[Record]:
    async with AsyncClient(load.url) as client:
        await client.describe()
        await asyncio.sleep(began - time.monotonic())
        if load.concurrency:
            return await _closed(client, load, began)
        return list(await asyncio.gather(*(_one(client, job, load.options, began) for job in load.jobs)))


async def _closed(client: AsyncClient, load: Load, began: float) -> list[Record]:
    records: list[Record] = []
    waiting = iter(load.jobs)

    async def caller() -> None:
        for job in waiting:
            records.append(await _one(client, job, load.options, began))

    await asyncio.gather(*(caller() for _ in range(load.concurrency)))
    return records


async def _one(client: AsyncClient, job: Job, options: SpeechOptions, began: float) -> Record:
    if job.due_s is not None:
        await asyncio.sleep(began + job.due_s - time.monotonic())
    began_s = time.monotonic() - began
    run = await speak(client, job.text, options)
    return Record(run, len(job.text), began_s, 0.0 if job.due_s is None else began_s - job.due_s)
