"""A generation that an engine fills and one reader empties, both on the event loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence


class FilledGeneration:
    """Satisfies `Generation`. Ids that come faster than they are read are read together.

    on_abort: called once, where the reader ends the generation before the engine does.
    """

    def __init__(self, on_abort: Callable[[], None]) -> None:
        self._on_abort = on_abort
        self._ids: list[int] = []
        self._reason: str | None = None
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def finish_reason(self) -> str | None:
        return self._reason

    @property
    def ended(self) -> bool:
        """Nothing more is taken in."""
        return self._reason is not None or self._error is not None

    def push(self, ids: Sequence[int]) -> None:
        if not self.ended:
            self._ids.extend(ids)
            self._changed.set()

    def finish(self, reason: str) -> None:
        if not self.ended:
            self._reason = reason
            self._changed.set()

    def fail(self, error: Exception) -> None:
        """The reader gets the ids that came before, then the error."""
        if not self.ended:
            self._error = error
            self._changed.set()

    def abort(self) -> None:
        """What has not been read is dropped."""
        if not self.ended:
            self._ids.clear()
            self.finish("cancelled")
            self._on_abort()

    def __aiter__(self) -> AsyncIterator[list[int]]:
        return self

    async def __anext__(self) -> list[int]:
        while not self._ids:
            if self._error is not None:
                raise self._error
            if self._reason is not None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        ids, self._ids = self._ids, []
        return ids
