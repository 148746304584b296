"""The language model's side of the acknowledgement table, with the codec's side played by hand."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from speech_lm.acks import AckTable, Ticket
from support.server import MODEL_REPOSITORY

VERSION_FOLDER = str(MODEL_REPOSITORY / "orpheus_lm/1")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[AckTable]:
    table = AckTable(4, tmp_path)
    yield table
    table.close()


def words(table: AckTable) -> NDArray[np.int64]:
    return np.memmap(table.path, "<i8", "r+")


def acknowledge(table: AckTable, ticket: Ticket, index: int, generation: int | None = None) -> None:
    words(table)[8 + 2 * ticket.slot + 1] = (generation or ticket.generation) << 32 | (index + 1)


def codec_worked(table: AckTable, started_s: float, finished_s: float) -> None:
    words(table)[3:5] = int(started_s * 1e9), int(finished_s * 1e9)


def test_the_file_is_private_and_goes_away(tmp_path: Path) -> None:
    table = AckTable(4, tmp_path)
    assert table.path.name == f"orpheus-ack-{table.table_id:016x}"
    assert table.path.stat().st_mode & 0o777 == 0o600
    assert table.path.stat().st_size == 8 * (8 + 2 * 4)
    assert list(words(table)[:3]) == [0x4F52504B41434B31, table.table_id, 4]
    table.close()
    assert not list(tmp_path.iterdir())


def test_outstanding_windows(table: AckTable) -> None:
    ticket = table.take()
    for now in (1.0, 2.0, 3.0):
        table.sent(ticket, now)
    assert table.outstanding(ticket, 3.0) == 3
    acknowledge(table, ticket, 1)
    assert table.outstanding(ticket, 4.0) == 1
    acknowledge(table, ticket, 2)
    assert table.outstanding(ticket, 5.0) == 0


def test_an_acknowledgement_of_the_slots_last_owner_counts_nothing(table: AckTable) -> None:
    old = table.take()
    table.give_back(old)
    new = table.take()
    assert new.slot == old.slot
    table.sent(new, 1.0)
    acknowledge(table, new, 0, generation=old.generation)
    assert table.outstanding(new, 1.0) == 1


def test_slots_run_out_and_come_back(table: AckTable) -> None:
    tickets = [table.take() for _ in range(4)]
    with pytest.raises(IndexError):
        table.take()
    table.give_back(tickets[2])
    assert table.take().slot == tickets[2].slot


def test_a_stream_that_the_idle_codec_does_not_serve_is_dead(table: AckTable) -> None:
    ticket = table.take()
    codec_worked(table, 0.9, 1.0)
    table.sent(ticket, 10.0)
    assert not table.is_dead(ticket, 3.0, 12.9)
    assert table.is_dead(ticket, 3.0, 13.1)


def test_a_stream_waits_for_a_busy_codec_but_not_for_ever(table: AckTable) -> None:
    ticket = table.take()
    table.sent(ticket, 10.0)
    codec_worked(table, 11.0, 10.5)
    assert not table.is_dead(ticket, 3.0, 14.0)
    assert table.is_dead(ticket, 3.0, 26.0)


def test_a_stream_overtaken_by_later_windows_is_dead_two_batches_on(table: AckTable) -> None:
    dead, alive = table.take(), table.take()
    codec_worked(table, 100.0, 99.0)
    words(table)[5] = 7
    table.sent(dead, 10.0)
    table.sent(alive, 12.0)
    acknowledge(table, alive, 0)
    assert table.outstanding(alive, 12.5) == 0
    assert not table.is_dead(dead, 3.0, 14.0), "the batch that answered the later window may still answer this one"
    words(table)[5] = 9
    assert table.is_dead(dead, 3.0, 14.1)
    assert not table.is_dead(alive, 3.0, 14.1)
    acknowledge(table, dead, 0)
    assert not table.is_dead(dead, 3.0, 14.2)


def test_a_stream_with_nothing_outstanding_is_never_dead(table: AckTable) -> None:
    ticket = table.take()
    assert not table.is_dead(ticket, 3.0, 1000.0)
    table.sent(ticket, 1000.0)
    acknowledge(table, ticket, 0)
    assert not table.is_dead(ticket, 3.0, 2000.0)
    table.sent(ticket, 2000.0)
    assert not table.is_dead(ticket, 3.0, 2001.0)


def test_how_long_the_codec_takes(table: AckTable) -> None:
    codec_worked(table, 10.0, 10.03)
    assert table.codec_batch_s(50.0) == pytest.approx(0.03)
    codec_worked(table, 49.5, 10.03)
    assert table.codec_batch_s(50.0) == pytest.approx(0.5), "the batch at work"


def test_a_slow_batch_is_remembered_for_a_while(table: AckTable) -> None:
    codec_worked(table, 10.0, 10.08)
    assert table.codec_batch_s(10.08) == pytest.approx(0.08)
    codec_worked(table, 10.1, 10.11)
    assert table.codec_batch_s(11.08) == pytest.approx(0.04)
    assert table.codec_batch_s(20.0) == pytest.approx(0.01)


def test_tables_of_killed_servers_are_removed_and_no_others(tmp_path: Path) -> None:
    living = AckTable(2, tmp_path)
    killed = f"import os, signal, pathlib; from speech_lm.acks import AckTable; t = AckTable(2, pathlib.Path({str(tmp_path)!r}))"
    command = [sys.executable, "-c", f"{killed}; os.kill(os.getpid(), signal.SIGKILL)"]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": VERSION_FOLDER}, check=False).returncode == -signal.SIGKILL
    other = tmp_path / "something-else"
    other.touch()
    assert len(list(tmp_path.glob("orpheus-ack-*"))) == 2
    newer = AckTable(2, tmp_path)
    assert set(tmp_path.iterdir()) == {living.path, newer.path, other}
    living.close()
    newer.close()
    assert set(tmp_path.iterdir()) == {other}


def test_a_full_folder_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no room for the acknowledgement table: No space left on device"):
        AckTable(2, tmp_path)
    assert list(tmp_path.iterdir()) == []
