"""orpheus bench-lite: a quick look, not a benchmark of record."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ..async_client import AsyncClient
from ..measuring import Run, speak, summarise
from ..speech import SpeechOptions
from .arguments import client_options, speech_options
from .exit_codes import ExitCode

T = TypeVar("T")
TEXTS = (
    "The train to London leaves at half past nine.",
    "Please put the blue cup on the shelf beside the window.",
    "It rained all night, but the morning was clear and bright.",
    "She asked him whether the letter had arrived yet.",
)


def bench(arguments: argparse.Namespace) -> ExitCode:
    texts = tuple(arguments.text or TEXTS)
    warmup = arguments.concurrency if arguments.warmup is None else arguments.warmup
    runs, wall_s = _run(_measure(arguments, texts, warmup))
    report = {"streams": arguments.streams, "concurrency": arguments.concurrency, "warmup": warmup, **summarise(runs, wall_s)}
    if arguments.json:
        print(json.dumps({**report, "runs": [{"failure": run.failure, **run.timings.to_dict()} for run in runs]}))
    else:
        print(table(report))
    return ExitCode.FAILED if any(run.failure for run in runs) else ExitCode.OK


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or until SIGINT or SIGTERM, which cancels the work so that every stream is ended in order.

    The signals' usual exceptions would come up inside the loop: before Python 3.11, and for SIGTERM always, `asyncio.run` then cancels the
    readers of the streams too.
    """
    received: list[int] = []

    async def watched() -> T:
        task = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows loops have no signal handlers
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await task

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if signal.SIGTERM in received:
            raise SystemExit(ExitCode.TERMINATED) from None
        raise KeyboardInterrupt from None


async def _measure(arguments: argparse.Namespace, texts: Sequence[str], warmup: int) -> tuple[list[Run], float]:
    """Warm up at the concurrency that is measured, then measure. Raises OrpheusError where the server cannot serve at all."""
    options = speech_options(arguments)
    async with AsyncClient(**client_options(arguments)) as client:
        await client.describe()
        await _speak_all(client, texts, warmup, arguments.concurrency, options)
        began_s = time.monotonic()
        runs = await _speak_all(client, texts, arguments.streams, arguments.concurrency, options)
        return runs, time.monotonic() - began_s


async def _speak_all(client: AsyncClient, texts: Sequence[str], n: int, concurrency: int, options: SpeechOptions) -> list[Run]:
    free = asyncio.Semaphore(concurrency)

    async def one(text: str) -> Run:
        async with free:
            return await speak(client, text, options)

    return await asyncio.gather(*(one(texts[number % len(texts)]) for number in range(n)))


def table(report: dict[str, Any]) -> str:
    failed = ", ".join(f"{count} {kind}" for kind, count in report["failures"].items()) or "none failed"
    lines = [
        f"{report['streams']} utterances, {report['concurrency']} at a time, after {report['warmup']} to warm up: "
        f"{report['complete']} complete, {failed}",
        f"{'':<26}{'median':>10}{'95 %':>10}{'max':>10}",
    ]
    rows = (
        ("time to first audio, ms", "time_to_first_audio_s", 1000, ".0f"),
        ("first audible sample, ms", "time_to_first_audible_s", 1000, ".0f"),
        ("longest gap, ms", "longest_gap_s", 1000, ".0f"),
        ("real-time factor", "real_time_factor", 1, ".3f"),
    )
    for title, name, factor, layout in rows:
        spread = report[name]
        cells = ("-",) * 3 if spread is None else tuple(format(factor * spread[key], layout) for key in ("p50", "p95", "max"))
        lines.append(f"{title:<26}" + "".join(f"{cell:>10}" for cell in cells))
    lines.append(f"streams with underruns: {report['streams_with_underruns']} of {report['complete']}")
    lines.append(f"{report['audio_s']:.1f} s of audio in {report['wall_s']:.1f} s: {report['times_real_time']:.1f} times real time in all")
    return "\n".join(lines)
