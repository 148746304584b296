"""Reading generations to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from speech_lm.engines import EngineError, Generation

T = TypeVar("T")


@dataclass
class Heard:
    """updates: the deltas as they came; error: what was raised instead of an end."""

    updates: list[list[int]] = field(default_factory=list[list[int]])
    finish_reason: str | None = None
    error: EngineError | None = None

    @property
    def ids(self) -> list[int]:
        return [i for update in self.updates for i in update]


async def hear(generation: Generation) -> Heard:
    heard = Heard()
    try:
        async for ids in generation:
            heard.updates.append(ids)
    except EngineError as error:
        heard.error = error
    heard.finish_reason = generation.finish_reason
    return heard


def run(work: Coroutine[Any, Any, T], limit_s: float = 60) -> T:
    """In a loop of its own; whatever hangs fails."""
    return asyncio.run(asyncio.wait_for(work, limit_s))
