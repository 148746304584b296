"""The acknowledgement table: how far the codec has come with each stream, in a small file that both models map.

It gives flow control (so many windows outstanding per stream) and finds streams whose listener is gone: Triton's ensemble drops the codec's
requests of a cancelled call but does not tell the language model, so acknowledgements stop while the codec goes on with others.

Layout, little-endian int64 words (the codec's side of it is snac_codec/acks.py; a test writes with one and reads with the other):
    0 magic, 1 table id, 2 number of slots, 3 codec batch started (ns), 4 codec batch finished (ns), 5 batches served, 6-7 zero,
    then per slot: generation (written here only), acknowledgement (written by the codec only) = generation << 32 | INDEX + 1.
Each word has one writer and is written in one aligned store, so no lock is needed. Times are CLOCK_MONOTONIC, one clock for the host.

The file is locked (flock) for as long as its maker lives: a table that can be locked belongs to nobody, and whoever makes the next one
removes it.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MAGIC = 0x4F52504B41434B31
HEADER_WORDS, SLOT_WORDS = 8, 2
STARTED, FINISHED, BATCHES = 3, 4, 5
COUNT_BITS = 32
PREFIX = "orpheus-ack-"
HOPELESS = 5
"""Patiences without an acknowledgement after which a stream is dead even though the codec seems busy: it may have been killed in a
batch."""


def table_folder() -> Path:
    return Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


@dataclass
class Ticket:
    """One stream's place in the table. sent: windows handed to the codec so far; progress_at: when the codec last acknowledged, or was last
    given something to do (seconds, time.monotonic); overtaken_at_batch: the codec's batch count when a later window was first seen
    acknowledged."""

    slot: int
    generation: int
    sent: int = 0
    acknowledged: int = 0
    progress_at: float = 0.0
    overtaken_at_batch: int | None = None
    sent_at: dict[int, float] = field(default_factory=dict[int, float])


class AckTable:
    """Created when the model loads, removed by `close`. Used from one thread.

    A stream takes a ticket, notes each window with `sent`, asks `outstanding`, and gives the ticket back.
    """

    def __init__(self, slots: int, folder: Path | None = None) -> None:
        folder = folder or table_folder()
        remove_abandoned(folder)
        self.table_id = secrets.randbits(62) + 1
        self.path = folder / f"{PREFIX}{self.table_id:016x}"
        size = 8 * (HEADER_WORDS + SLOT_WORDS * slots)
        self._descriptor = _create_locked(self.path)
        try:
            os.posix_fallocate(self._descriptor, 0, size)  # a full /dev/shm fails here, not with SIGBUS later
            self._map = mmap.mmap(self._descriptor, size)
        except OSError as error:
            self.path.unlink()
            os.close(self._descriptor)
            raise OSError(error.errno, f"no room for the acknowledgement table: {error.strerror}", f"{self.path}") from None
        self._words = np.frombuffer(self._map, "<i8")
        self._words[:3] = MAGIC, self.table_id, slots
        self._free = list(range(slots))
        self._generation = 0
        self._newest_acknowledged_at = 0.0
        self._slow_batch_s = self._slow_batch_at = 0.0

    def take(self) -> Ticket:
        """A free slot under a generation never used before. Raises IndexError where none is free: admission must come first."""
        slot = self._free.pop()
        self._generation += 1
        self._words[HEADER_WORDS + SLOT_WORDS * slot] = self._generation
        return Ticket(slot, self._generation)

    def give_back(self, ticket: Ticket) -> None:
        self._words[HEADER_WORDS + SLOT_WORDS * ticket.slot] = 0
        self._free.append(ticket.slot)

    def sent(self, ticket: Ticket, now: float) -> None:
        """Note that one more window of this stream is on its way to the codec."""
        if ticket.sent == ticket.acknowledged:
            ticket.progress_at = now
        ticket.sent_at[ticket.sent] = now
        ticket.sent += 1

    def outstanding(self, ticket: Ticket, now: float) -> int:
        """Windows sent and not acknowledged."""
        word = int(self._words[HEADER_WORDS + SLOT_WORDS * ticket.slot + 1])
        count = word & (1 << COUNT_BITS) - 1 if word >> COUNT_BITS == ticket.generation else 0
        if count > ticket.acknowledged:
            for index in range(ticket.acknowledged, count):
                self._newest_acknowledged_at = max(self._newest_acknowledged_at, ticket.sent_at.pop(index, 0.0))
            ticket.acknowledged, ticket.progress_at, ticket.overtaken_at_batch = count, now, None
        return ticket.sent - ticket.acknowledged

    def first_is_under_way(self, ticket: Ticket) -> bool:
        """Whether the codec has begun a batch, or acknowledged, since the stream's first window was sent."""
        return ticket.acknowledged > 0 or int(self._words[STARTED]) / 1e9 > ticket.sent_at.get(0, math.inf)

    def is_dead(self, ticket: Ticket, patience_s: float, now: float) -> bool:
        """Whether the codec had `patience_s` to serve this stream's oldest window and did not, though it was idle or served later windows.

        Windows reach the codec in the order in which they are sent, but inside a batch they are answered in any order: a stream counts as
        overtaken only when the codec has gone on for two whole batches after answering a later window.
        """
        if not self.outstanding(ticket, now):
            return False
        batches = int(self._words[BATCHES])
        if ticket.overtaken_at_batch is None and self._newest_acknowledged_at > ticket.sent_at[ticket.acknowledged]:
            ticket.overtaken_at_batch = batches
        waited_s = now - ticket.progress_at
        if waited_s < patience_s:
            return False
        overtaken = ticket.overtaken_at_batch is not None and batches >= ticket.overtaken_at_batch + 2
        return overtaken or self._codec_idle_s(now) > patience_s or waited_s > HOPELESS * patience_s

    def codec_batch_s(self, now: float) -> float:
        """How long the codec takes for a batch: the last one, or the one at work where that has taken longer already. Slower ones of late,
        as far as this was asked meanwhile, count too, half as much with every second."""
        started, finished = (int(self._words[at]) / 1e9 for at in (STARTED, FINISHED))
        last_s = finished - started if finished >= started else now - started
        self._slow_batch_s = max(last_s, self._slow_batch_s * 0.5 ** (now - self._slow_batch_at))
        self._slow_batch_at = now
        return self._slow_batch_s

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        del self._words
        self._map.close()
        os.close(self._descriptor)

    def _codec_idle_s(self, now: float) -> float:
        started, finished = (int(self._words[at]) / 1e9 for at in (STARTED, FINISHED))
        return now - finished if finished >= started else 0.0


def remove_abandoned(folder: Path) -> int:
    """Tables of servers that were killed; -> how many there were."""
    removed = 0
    for path in folder.glob(f"{PREFIX}*"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile, or another user's
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            removed += 1
        except OSError:  # in use
            pass
        finally:
            os.close(descriptor)
    return removed


def _create_locked(path: Path) -> int:
    """-> the descriptor. Between making and locking, another server may take the file for an abandoned one: then once more."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)
