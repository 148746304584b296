"""Callers that are killed: each a process with a plain tritonclient, ended by SIGKILL at a random moment of its stream.

    python -m support.doomed_clients HOST:PORT COUNT SEED

The processes are forks of this one, made before any channel is: importing the library two hundred times would take minutes.
"""

from __future__ import annotations

import heapq
import os
import random
import signal
import sys
import time

from support.raw import raw_stream, text

AT_A_TIME = 8
LONGEST_LIFE_S = 0.8
SAID = "The train to London leaves at half past nine, and the last one back is at a quarter to eleven in the evening."


def call(url: str, number: int) -> None:
    with raw_stream(url) as stream:
        stream.send("orpheus_tts", {"TEXT": text(SAID)}, request_id=f"doomed-{number}")
        time.sleep(60)


def main() -> None:
    url, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dice = random.Random(seed)
    living: list[tuple[float, int]] = []
    for number in range(count):
        if len(living) == AT_A_TIME:
            kill_next(living)
        child = os.fork()
        if not child:
            call(url, number)
            os._exit(0)
        heapq.heappush(living, (time.monotonic() + dice.uniform(0, LONGEST_LIFE_S), child))
    while living:
        kill_next(living)


def kill_next(living: list[tuple[float, int]]) -> None:
    at, child = heapq.heappop(living)
    time.sleep(max(0.0, at - time.monotonic()))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
