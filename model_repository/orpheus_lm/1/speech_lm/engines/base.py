"""What every engine offers: submit prompt ids, get an asynchronous stream of token ids, abort.

All methods are called from the event loop's thread; an engine's own threads never touch a caller's objects except through the loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """How one generation is sampled.

    temperature: 0 takes the likeliest token; top_p: 1 is off; top_k: 0 is off; repetition_penalty: 1 is off; seed: None for a new one each
    time; max_tokens: the most ids generated, without the prompt; stop_ids: ids that end the generation.
    """

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    seed: int | None
    max_tokens: int
    stop_ids: frozenset[int]


@dataclass(frozen=True)
class EngineOptions:
    """threads: processor threads, 0 for the engine's choice; max_streams: generations at once, more of them wait their turn;
    kv_cache_tokens: tokens of all generations together that the cache holds, 0 for enough for max_streams.
    """

    threads: int
    max_streams: int
    kv_cache_tokens: int = 0


class EngineError(Exception):
    """The engine failed. Every running generation raises it; none of them waits for ever."""


class Generation(Protocol):
    """One running generation: an asynchronous iterator of non-empty lists of new token ids, for one reader.

    It ends when the generation is over; a stop id may or may not be its last id. It raises EngineError where the engine failed.
    """

    def __aiter__(self) -> AsyncIterator[list[int]]: ...

    def abort(self) -> None:
        """End it soon; may be called at any time and any number of times."""
        ...

    @property
    def finish_reason(self) -> str | None:
        """None before the end; then "stop" (a stop id), "length" (max_tokens) or "cancelled" (abort)."""
        ...


class Engine(Protocol):
    async def start(self) -> None:
        """Load and warm up. Raises EngineError, with a reason for people, where the model cannot be served."""
        ...

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> Generation:
        """Returns at once."""
        ...

    async def close(self) -> None:
        """Abort everything and join the threads."""
        ...

    @property
    def max_context_tokens(self) -> int | None:
        """The most tokens of prompt and output of one generation, where there is a limit."""
        ...
