"""Mixed traffic for minutes or hours: nothing may leak, hang or fail that should not.

    make soak ARGS="--minutes 5"
    make soak ARGS="--hours 8 --callers 16"

Callers speak whole utterances, leave in mid-stream (half of them), and ask for what is refused. Expected are whole utterances, ends by
cancel, and InvalidRequest for invalid requests: anything else is unexpected. Memory of the server and its processes is read every few
seconds; it counts as flat where the last quarter's median is at most --allow-mb above the second quarter's. At the end the server must be
idle. Written with --out: soak.json. Exit status 1 where something was not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedded.running import RunningServer
from embedded.vitals import Vitals, vitals, wait_until_idle
from loadgen import results
from loadgen.target import own_server
from loadgen.texts import MIXES
from orpheus_client import AsyncClient, InvalidRequest, OrpheusError, SpeechOptions

WHOLE, LEAVE, INVALID = "whole", "leave", "invalid"
SHARES = {WHOLE: 0.4, LEAVE: 0.5, INVALID: 0.1}
MOST_CHUNKS_BEFORE_LEAVING = 6
WRONG: Sequence[tuple[str, SpeechOptions]] = (
    ("", {}),
    (" \n", {}),
    ("Hello.", {"voice": "nobody"}),
    ("Hello.", {"temperature": 9.0}),
    ("Hello.", {"chunk_frames": 99}),
    ("word " * 10_000, {}),
)


@dataclass
class Soak:
    """done: what was asked, by kind; unexpected: how it ended otherwise than it should, by kind and error."""

    done: Counter[str] = field(default_factory=Counter[str])
    unexpected: Counter[str] = field(default_factory=Counter[str])
    samples: list[tuple[float, Vitals]] = field(default_factory=list[tuple[float, Vitals]])
    idle_after_s: float = 0.0

    @property
    def growth_mb(self) -> float:
        """Of the median memory, from the second quarter of the time to the last."""
        quarter = len(self.samples) // 4
        second, last = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        return statistics.median(v.memory_mb for _, v in last) - statistics.median(v.memory_mb for _, v in second)

    def faults(self, allow_mb: float) -> list[str]:
        found = [f"{n} times {what}" for what, n in self.unexpected.items()]
        if self.growth_mb > allow_mb:
            found.append(f"memory grew by {self.growth_mb:.0f} MB")
        before, after = self.samples[0][1], self.samples[-1][1]
        if new := after.shared - before.shared:
            found.append(f"left in /dev/shm: {sorted(new)}")
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "done": dict(self.done),
            "unexpected": dict(self.unexpected),
            "growth_mb": round(self.growth_mb, 1),
            "idle_after_s": round(self.idle_after_s, 2),
            "samples": [{"at_s": round(at, 1), "memory_mb": round(v.memory_mb, 1), "sockets": v.sockets} for at, v in self.samples],
        }


def soak(server: RunningServer, seconds: float, callers: int, seed: int = 0) -> Soak:
    """Raises TimeoutError where the server is not idle afterwards."""
    found = Soak()
    asyncio.run(_traffic(server, found, seconds, callers, seed))
    found.idle_after_s = wait_until_idle(server)
    found.samples.append((seconds + found.idle_after_s, vitals(server)))
    return found


async def _traffic(server: RunningServer, found: Soak, seconds: float, callers: int, seed: int) -> None:
    began = time.monotonic()

    async def caller(number: int) -> None:
        dice = random.Random(f"{seed}/{number}")
        async with AsyncClient(server.grpc_url) as client:
            while time.monotonic() < began + seconds:
                kind = dice.choices(list(SHARES), list(SHARES.values()))[0]
                found.done[kind] += 1
                if outcome := await _call(client, kind, dice):
                    found.unexpected[f"{kind}: {outcome}"] += 1

    async def watch() -> None:
        while time.monotonic() < began + seconds:
            found.samples.append((time.monotonic() - began, await asyncio.to_thread(vitals, server)))
            await asyncio.sleep(min(5.0, seconds / 40))

    await asyncio.gather(watch(), *map(caller, range(callers)))


async def _call(client: AsyncClient, kind: str, dice: random.Random) -> str:
    """-> what was not as expected, else ""."""
    text, options = dice.choice(WRONG) if kind == INVALID else (dice.choice(list(MIXES["mixed"])), SpeechOptions())
    leave_after = dice.randrange(MOST_CHUNKS_BEFORE_LEAVING) if kind == LEAVE else None
    chunks = 0
    try:
        async with client.stream(text, **options) as speech:
            while chunks != leave_after:
                try:
                    await anext(speech)
                except StopAsyncIteration:
                    break
                chunks += 1
    except InvalidRequest as error:
        return "" if kind == INVALID else f"{error}"
    except OrpheusError as error:
        return f"{type(error).__name__}"
    wanted = {WHOLE: ("stop",), LEAVE: ("stop", "cancelled"), INVALID: ()}[kind]
    return "" if speech.finish_reason in wanted else f"ended with {speech.finish_reason!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--minutes", type=float, default=3.0)
    how_long.add_argument("--hours", type=float)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allow-mb", type=float, default=30.0, help="growth of memory that still counts as flat")
    parser.add_argument("--out", type=Path, help="JSON file, for example perf/results/soak.json")
    args = parser.parse_args()
    seconds = 3600 * args.hours if args.hours else 60 * args.minutes
    content = results.report({name: value for name, value in vars(args).items() if name != "out"})
    with own_server() as server:
        found = soak(server, seconds, args.callers, args.seed)
    content |= found.to_dict()
    print(
        f"{sum(found.done.values())} requests {dict(found.done)}, memory {found.growth_mb:+.1f} MB, idle after {found.idle_after_s:.1f} s"
    )
    for fault in found.faults(args.allow_mb):
        print(f"not as it must be: {fault}", file=sys.stderr)
    if args.out:
        results.save(args.out, content)
    return 1 if found.faults(args.allow_mb) else 0


if __name__ == "__main__":
    sys.exit(main())
