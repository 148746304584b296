"""What a running server holds on to: memory, sockets, shared memory, work under way."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from embedded.running import RunningServer

UNDER_WAY = ("orpheus_lm_active_streams", "orpheus_lm_active_generations", "orpheus_lm_outstanding_windows")
PUBLISHED_EVERY_S = 0.5  # orpheus_lm/1/model.py: PUBLISH_EVERY_S


@dataclass(frozen=True)
class Vitals:
    """memory_mb: resident, of the server, its stubs and the engine's process; sockets: of the server; shared: files in /dev/shm."""

    memory_mb: float
    sockets: int
    shared: frozenset[str]


def processes_of(pid: int) -> list[int]:
    """The process and all below it."""
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [pid, *(below for child in children for below in processes_of(child))]


def vitals(server: RunningServer) -> Vitals:
    links = [link.readlink() for link in Path(f"/proc/{server.pid}/fd").iterdir()]
    return Vitals(
        memory_mb=sum(map(_resident_kb, processes_of(server.pid))) / 1000,
        sockets=sum(link.name.startswith("socket:") for link in links),
        shared=frozenset(path.name for path in Path("/dev/shm").iterdir()),
    )


def cpu_s(pid: int) -> float:
    """Processor time of the process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(server: RunningServer, name: str) -> float:
    """Summed over its labels; 0 where it has not been published yet."""
    return sum(value for key, value in server.metrics().items() if key == name or key.startswith(name + "{"))


def wait_until_idle(server: RunningServer, timeout_s: float = 30.0) -> float:
    """No stream, no generation, no window under way; -> seconds that it took. Raises TimeoutError that says what is left."""
    began = time.monotonic()
    time.sleep(2 * PUBLISHED_EVERY_S)
    while left := {name: value for name in UNDER_WAY if (value := metric(server, name))}:
        if time.monotonic() > began + timeout_s:
            raise TimeoutError(f"after {timeout_s:.0f} s the server is not idle: {left}")
        time.sleep(0.1)
    return time.monotonic() - began


def _resident_kb(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(status.split("VmRSS:")[1].split()[0]) if "VmRSS:" in status else 0
