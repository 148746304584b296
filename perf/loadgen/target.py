"""The server to measure: a running one, or one of our own, started on free ports for this measurement and stopped behind it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from embedded.running import REPOSITORY, RunningServer

from loadgen.machine import ROOT

BUILT = ROOT / ".venv" / "bin" / "python"


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="a running server, host:port (default: one is started, with the settings in the environment)")


def own_server(repository: Path = REPOSITORY, environment: Mapping[str, str] | None = None) -> RunningServer:
    """In the server's own environment, .venv, where `make` has built it."""
    return RunningServer(repository, python=BUILT if BUILT.exists() else sys.executable, environment=environment)


@contextmanager
def target(url: str | None) -> Generator[str]:
    """-> host:port"""
    if url:
        yield url
        return
    print("starting a server ...", file=sys.stderr)
    with own_server() as server:
        yield server.grpc_url
