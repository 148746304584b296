"""When callers call. Pure: times in seconds from the start of the measurement."""

from __future__ import annotations

import random

ARRIVALS = ("constant", "poisson")


def start_times_s(arrivals: str, rate_per_s: float, n: int, seed: int) -> list[float]:
    """Of n streams, ascending from 0. constant: every 1 / rate s; poisson: independent callers, exponential pauses of that mean.

    Raises ValueError for another name or a rate that is not above zero.
    """
    if rate_per_s <= 0:
        raise ValueError(f"the rate must be above 0 streams per second, not {rate_per_s}")
    if arrivals == "constant":
        return [number / rate_per_s for number in range(n)]
    if arrivals == "poisson":
        rng, at_s, times = random.Random(seed), 0.0, [0.0]
        while len(times) < n:
            at_s += rng.expovariate(rate_per_s)
            times.append(at_s)
        return times[:n]
    raise ValueError(f"arrivals are {' or '.join(ARRIVALS)}, not {arrivals!r}")
