"""orpheus drain"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request

from .exit_codes import ExitCode

GAUGE = "orpheus_lm_active_streams "
POLL_S = 0.5
PUBLISHED_WITHIN_S = 1.0
"""The server publishes its gauge twice a second: a stream that has just begun is not in it yet."""


def drain(arguments: argparse.Namespace) -> ExitCode:
    """Wait until the server has no stream. Whoever calls this has taken the server out of the balancer before."""
    time.sleep(arguments.pause_s + PUBLISHED_WITHIN_S)
    until = time.monotonic() + arguments.timeout_s
    while active := _active_streams(arguments.metrics_url):
        if time.monotonic() > until:
            print(f"orpheus: {active:.0f} streams are still being served", file=sys.stderr)
            return ExitCode.TIMEOUT
        time.sleep(POLL_S)
    return ExitCode.OK


def _active_streams(url: str) -> float:
    """0 before the first publication. Raises OSError where there is no such page."""
    with urllib.request.urlopen(url, timeout=5) as page:
        lines: list[str] = page.read().decode().splitlines()
    return sum(float(line.removeprefix(GAUGE)) for line in lines if line.startswith(GAUGE))
