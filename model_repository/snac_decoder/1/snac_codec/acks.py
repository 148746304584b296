"""The codec's side of the acknowledgement table, through which the language model learns how far each stream has come.

The language model makes the table and names it in every ticket (layout: speech_lm/acks.py). This side maps it on first sight, and only a
file
of the right name, size and header; it writes its own words alone. A ticket from anybody else does no harm.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x4F52504B41434B31
HEADER_WORDS, SLOT_WORDS = 8, 2
STARTED, FINISHED, BATCHES = 3, 4, 5
COUNT_BITS = 32
MAX_TABLES = 16
"""More tables than servers on a host; the least recently used is let go."""

Words = NDArray[np.int64]


def table_folder() -> Path:
    return Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


class Acknowledger:
    """Used from one thread. clock_ns: the clock of the language model's host, in nanoseconds."""

    def __init__(self, folder: Path | None = None, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._folder, self._clock_ns = folder or table_folder(), clock_ns
        self._tables: OrderedDict[int, Words] = OrderedDict()

    def batch_started(self, table_ids: set[int]) -> None:
        """Note in the tables of a batch's tickets that the codec is at work."""
        for table_id in table_ids:
            words = self._table(table_id)
            if words is not None:
                words[STARTED] = self._clock_ns()

    def batch_finished(self) -> None:
        for words in self._tables.values():
            words[FINISHED] = self._clock_ns()
            words[BATCHES] += 1

    def acknowledge(self, ticket: Sequence[int], index: int) -> bool:
        """Note that window `index` of the ticket's stream has been answered; False where the ticket is nobody's (any more)."""
        table_id, slot, generation = map(int, ticket)
        words = self._table(table_id)
        if words is None or not 0 <= slot < words[2]:
            return False
        at = HEADER_WORDS + SLOT_WORDS * slot
        if generation <= 0 or words[at] != generation:
            return False
        words[at + 1] = generation << COUNT_BITS | (index + 1)
        return True

    def _table(self, table_id: int) -> Words | None:
        if table_id <= 0:
            return None
        words = self._tables.get(table_id)
        if words is None:
            words = self._map(table_id)
            if words is None:
                return None
            self._tables[table_id] = words
            if len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(table_id)
        return words

    def _map(self, table_id: int) -> Words | None:
        try:
            descriptor = os.open(self._folder / f"orpheus-ack-{table_id:016x}", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            size = os.fstat(descriptor).st_size
            if size < 8 * HEADER_WORDS or size % 8:
                return None
            words = np.frombuffer(mmap.mmap(descriptor, size), "<i8")
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)
        fits = words[0] == MAGIC and words[1] == table_id and size == 8 * (HEADER_WORDS + SLOT_WORDS * int(words[2]))
        return words if fits else None
