"""A tritonserver of one's own: started on free ports, waited for, stopped again. For tests, the demo and measurements."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from embedded.ports import free_ports

SERVE = Path(__file__).resolve().parents[1] / "serve.py"
REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"

_METRIC = re.compile(r"^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)
_CHATTER = re.compile(r"I\d{4} |[+|]")  # Triton's lines of information, and its tables: what went wrong stands outside them too
_TAIL_LINES = 40
_POLL_S = 0.1


class ServerFailedError(RuntimeError):
    """The server ended, or was not ready in time. The message ends with the last lines of its log."""


class RunningServer:
    """`with RunningServer() as server:` is a ready server; leaving the block stops it, and so does the end of the thread that started it,
    even by a signal that leaves no time to clean up.

    python: the interpreter whose environment serves (its embedded tritonserver, its packages); default: the running one.
    environment: variables on top of this process's own. arguments: of tritonserver, on top of ours.
    log: file for the server's output; default: one in the system's temporary folder, removed when the server stops.
    exit_timeout_s: what the server gives running streams when it is told to stop; stop_grace_s: what it gets on top before it is killed.
    progress: called with the seconds waited so far, several times a second, until the server is ready.
    """

    def __init__(
        self,
        repository: Path = REPOSITORY,
        *,
        python: Path | str = sys.executable,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        log: Path | None = None,
        ready_timeout_s: float = 180.0,
        exit_timeout_s: int = 5,
        stop_grace_s: float = 10.0,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.repository = repository
        self._python = python
        self._environment = {**os.environ, **(environment or {})}
        self._arguments = arguments
        self._own_log = log is None
        self._log_at_end: str | None = None
        self.log_path = log or Path(tempfile.mkstemp(prefix="tritonserver-", suffix=".log")[1])
        self._ready_timeout_s = ready_timeout_s
        self._exit_timeout_s = exit_timeout_s
        self._stop_grace_s = stop_grace_s
        self._progress = progress
        self.grpc_port, self.http_port, self.metrics_port = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RunningServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def grpc_url(self) -> str:
        """As gRPC clients want it: host:port."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        """Of the tritonserver process itself."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and wait until every model is ready. Raises ServerFailedError."""
        command = [
            f"{self._python}",
            f"{SERVE}",
            f"--repository={self.repository}",
            f"--grpc-port={self.grpc_port}",
            f"--http-port={self.http_port}",
            f"--metrics-port={self.metrics_port}",
            f"--exit-timeout-s={self._exit_timeout_s}",
            f"--parent={os.getpid()}",
            "--",
            *self._arguments,
        ]
        with self.log_path.open("wb") as log:
            # A session of its own: a Ctrl-C in the terminal reaches us alone, and its process group is the server and its stubs.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self._environment, start_new_session=True
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """SIGTERM; the server and its stubs by SIGKILL if they take longer than their own time to exit."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=self._exit_timeout_s + self._stop_grace_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the group outlives its leader where a stub still runs
        process.wait()
        if self._own_log:
            self._log_at_end = self.log_text()
            self.log_path.unlink(missing_ok=True)

    def log_text(self) -> str:
        """Everything the server has written so far, also after its end."""
        if self._log_at_end is not None:
            return self._log_at_end
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def metrics(self) -> dict[str, float]:
        """Of the Prometheus page: `name{label="value",...}` as it stands there, to its value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            page: str = answer.read().decode()
        return {name: float(value) for name, value in _METRIC.findall(page)}

    def stub_pids(self) -> list[int]:
        """The python backend's processes, one per model instance."""
        children = Path(f"/proc/{self.pid}/task")
        return sorted({int(child) for task in children.iterdir() for child in (task / "children").read_text().split()})

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        while True:
            waited_s = time.monotonic() - began
            if process.poll() is not None:
                raise self._failed(f"the server ended with exit status {process.returncode} before it was ready")
            if waited_s > self._ready_timeout_s:
                raise self._failed(f"the server was not ready within {self._ready_timeout_s:.0f} s")
            if self._progress is not None:
                self._progress(waited_s)
            if self._is_ready():
                return
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        """Over HTTP, which stays plain where gRPC is encrypted or wants a token."""
        try:
            with urllib.request.urlopen(f"{self.http_url}/v2/health/ready", timeout=5):
                return True
        except OSError:
            return False

    def _failed(self, what: str) -> ServerFailedError:
        told = [line for line in self.log_text().splitlines() if line.strip() and not _CHATTER.match(line)]
        return ServerFailedError("\n".join([f"{what}; the end of its log:", *told[-_TAIL_LINES:]]))
