"""The real server under test: which Python serves it, and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from embedded.running import RunningServer

ROOT = Path(__file__).resolve().parents[2]
MODEL_REPOSITORY = ROOT / "model_repository"
SERVER_PYTHON_VARIABLE = "ORPHEUS_TEST_SERVER_PYTHON"


class StartServer(Protocol):
    """Starts a server that runs until the end of the tests that share it."""

    def __call__(
        self, repository: Path = MODEL_REPOSITORY, *, environment: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
    ) -> RunningServer: ...


def server_python() -> Path:
    """The environment that serves: the one named in ORPHEUS_TEST_SERVER_PYTHON, else .venv (as `make` builds it), else the running one."""
    named = os.environ.get(SERVER_PYTHON_VARIABLE)
    if named:
        return Path(named)
    built = ROOT / ".venv" / "bin" / "python"
    return built if built.exists() else Path(sys.executable)
