"""The command line and environment of a tritonserver for our model repository."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedded.installation import Tritonserver

# Bytes of shared memory between the server and each model's stub process. A response here is some 60 kB at most (a chunk of 8 frames) and
# the region grows by itself; Triton's 1 MiB would have to grow under many streams, and a container's /dev/shm is often 64 MB.
SHARED_MEMORY_BYTES = 8 << 20

# A client whose network stopped without a word is found within 20 s, by pings that it does not answer, and its calls are cancelled.
# Triton's own periods are hours. A client that only reads slowly answers them. (Names: tritonserver --help, 2.51.)
KEEPALIVE = (
    "--grpc-keepalive-time=10000",
    "--grpc-keepalive-timeout=10000",
    "--grpc-keepalive-permit-without-calls=true",
    "--grpc-http2-max-pings-without-data=0",
)

_PLAIN = re.compile(r"[\w./+@%:,=-]+", re.ASCII)


@dataclass(frozen=True)
class ServerOptions:
    """Ports are numbers, or None for none at all. more: arguments of tritonserver's own, behind ours."""

    repository: Path
    grpc_port: int
    http_port: int | None = None
    metrics_port: int | None = None
    host: str = "127.0.0.1"
    exit_timeout_s: int = 5
    verbose: int = 0
    more: Sequence[str] = ()


def plain_path(folder: Path) -> str:
    """A path to `folder` that needs no quoting, for this process (also after exec) and its children.

    Triton starts its python stubs through a shell without quoting the paths of model and backend: seen on 2.51, where a blank in either
    leaves the server loading for ever. And the stub's Python cannot open a path that is not ASCII.
    """
    if _PLAIN.fullmatch(str(folder)):
        return str(folder)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    os.set_inheritable(descriptor, True)
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def server_arguments(server: Tritonserver, options: ServerOptions) -> list[str]:
    arguments = [
        str(server.executable),
        f"--model-repository={plain_path(options.repository)}",
        f"--grpc-address={options.host}",
        f"--grpc-port={options.grpc_port}",
        f"--exit-timeout-secs={options.exit_timeout_s}",
        f"--log-verbose={options.verbose}",
        f"--backend-config=python,shm-default-byte-size={SHARED_MEMORY_BYTES}",
        *KEEPALIVE,
    ]
    if server.backend_directory is not None:
        arguments += [f"--backend-directory={plain_path(server.backend_directory)}", "--allow-gpu-metrics=false"]
    if options.http_port is None:
        arguments.append("--allow-http=false")
    else:
        arguments += [f"--http-address={options.host}", f"--http-port={options.http_port}"]
    if options.metrics_port is None:
        arguments.append("--allow-metrics=false")
    else:
        arguments += [f"--metrics-address={options.host}", f"--metrics-port={options.metrics_port}"]
    return [*arguments, *options.more]


def server_environment(server: Tritonserver, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`environment` and what the server needs.

    The stub process embeds a Python in isolated mode: PYTHONPATH, PYTHONUTF8 and the like do nothing there, and its default encoding is
    ASCII. It takes the first `python3` on PATH for its own executable, which leads it to that one's virtual environment.
    """
    result = dict(environment)
    result.setdefault("CI", "true")  # OpenVINO sends a usage event whenever it is imported, unless this says that it runs in CI
    result["TOKENIZERS_PARALLELISM"] = "false"  # short texts, many streams: threads of its own only get in the engine's way
    for name, folders in (("PATH", server.executable_path), ("LD_LIBRARY_PATH", server.library_path)):
        if folders:
            result[name] = os.pathsep.join([*map(str, folders), *filter(None, [environment.get(name)])])
    return result
