"""One way to listen to an utterance, on either client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orpheus_client import AsyncClient, Chunk, Client, OrpheusError, Timings


@dataclass(frozen=True)
class Heard:
    """What came of one utterance. took_s: until the block was left."""

    chunks: list[Chunk]
    error: OrpheusError | None
    finish_reason: str
    request_id: str
    timings: Timings
    took_s: float


Listen = Callable[..., Heard]


def listen_sync(url: str, text: str, take: int | None = None, client: dict[str, Any] | None = None, **options: Any) -> Heard:
    """take: leave the block after so many chunks."""
    began_s = time.monotonic()
    chunks: list[Chunk] = []
    error: OrpheusError | None = None
    with Client(url, **(client or {})) as made:
        stream = made.stream(text, **options)
        try:
            with stream as speech:
                for chunk in speech:
                    chunks.append(chunk)
                    if len(chunks) == take:
                        break
        except OrpheusError as caught:
            error = caught
        took_s = time.monotonic() - began_s
        return Heard(chunks, error, stream.finish_reason, stream.request_id, stream.timings, took_s)


def listen_async(url: str, text: str, take: int | None = None, client: dict[str, Any] | None = None, **options: Any) -> Heard:
    async def run() -> Heard:
        began_s = time.monotonic()
        chunks: list[Chunk] = []
        error: OrpheusError | None = None
        async with AsyncClient(url, **(client or {})) as made:
            stream = made.stream(text, **options)
            try:
                async with stream as speech:
                    async for chunk in speech:
                        chunks.append(chunk)
                        if len(chunks) == take:
                            break
            except OrpheusError as caught:
                error = caught
            took_s = time.monotonic() - began_s
            return Heard(chunks, error, stream.finish_reason, stream.request_id, stream.timings, took_s)

    return asyncio.run(run())
