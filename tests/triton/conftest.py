"""Real servers for tests: `server` as the repository is, `start_server` for special ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from embedded.running import RunningServer
from support.server import MODEL_REPOSITORY, StartServer, server_python


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """The model repository as it is in git, one server for the whole run. Leave nothing behind on it."""
    with RunningServer(MODEL_REPOSITORY, python=server_python()) as running:
        yield running


@pytest.fixture(scope="module")
def start_server() -> Iterator[StartServer]:
    """Starts servers with another repository or environment; they end with the test module."""
    with ExitStack() as running:

        def start(
            repository: Path = MODEL_REPOSITORY, *, environment: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
        ) -> RunningServer:
            return running.enter_context(RunningServer(repository, python=server_python(), environment=environment, arguments=arguments))

        yield start
