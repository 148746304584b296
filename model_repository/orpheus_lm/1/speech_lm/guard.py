"""A process that sees to it that nothing outlives its tritonserver: started beside the language model, it waits for the server's end.

    python guard.py SERVER_PID STUB_PID

On 2.51 a stub can stay behind with its engine when the server is killed, or ends with calls that it counts in flight (its finalize then
waits for a server that is gone), and a killed server leaves the stubs' regions in /dev/shm, 8 MB each. A thread of the stub cannot watch:
what hangs there may hold Python's global lock. Standard library alone, and no imports of ours: it runs with -I.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

GRACE_S = 5.0
"""For the stubs to end by themselves."""
LOOK_EVERY_S = 10.0
SHARED_MEMORY = Path("/dev/shm")
REGION = "triton_python_backend_shm_region_"


def start_guard() -> None:
    """From within the stub, whose parent is the server. In a session of its own: whoever kills the server's process group leaves it."""
    if not sys.executable or not hasattr(os, "pidfd_open"):
        return
    command = [sys.executable, "-I", "-S", __file__, f"{os.getppid()}", f"{os.getpid()}"]
    quiet = subprocess.DEVNULL
    subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def stubs_of(server: int, processes: Path = Path("/proc")) -> dict[int, str]:
    """Pid of each stub of this server -> name of its region. Both are arguments that Triton starts it with (2.51): stub, model.py, region,
    size, growth, pid of the server, ..."""
    found: dict[int, str] = {}
    for folder in processes.iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if len(words) > 5 and words[0].endswith("triton_python_backend_stub") and words[5] == f"{server}":
                found[int(folder.name)] = words[2]
    return found


def main() -> None:
    server, stub = int(sys.argv[1]), int(sys.argv[2])
    try:
        watched = {os.pidfd_open(server): "server", os.pidfd_open(stub): "stub"}
    except ProcessLookupError:
        return
    ends = select.poll()
    for descriptor in watched:
        ends.register(descriptor, select.POLLIN)
    regions: set[str] = set()
    while True:
        regions |= set(stubs_of(server).values())
        ended = {watched[descriptor] for descriptor, _ in ends.poll(1000 * LOOK_EVERY_S)}
        if "server" in ended:
            break
        if "stub" in ended:
            return
    clean_up(server, regions)


def clean_up(server: int, regions: set[str]) -> None:
    until = time.monotonic() + GRACE_S
    while (left := stubs_of(server)) and time.monotonic() < until:
        regions |= set(left.values())
        time.sleep(0.2)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for region in regions:
        if region.startswith(REGION) and "/" not in region:
            (SHARED_MEMORY / region).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
