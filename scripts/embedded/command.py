"""The command line and environment of a tritonserver for our model repository."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded.installation import Tritonserver

# Bytes of shared memory between the server and each model's stub process. A response here is some 60 kB at most (a chunk of 8 frames) and
# the region grows by itself; Triton's 1 MiB would have to grow under many streams, and a container's /dev/shm is often 64 MB.
SHARED_MEMORY_BYTES = 8 << 20


@dataclass(frozen=True)
class ServerOptions:
    """Ports are numbers, or None for none at all."""

    repository: Path
    grpc_port: int
    http_port: int | None = None
    metrics_port: int | None = None
    host: str = "127.0.0.1"
    exit_timeout_s: int = 5
    verbose: int = 0


def server_arguments(server: Tritonserver, options: ServerOptions) -> list[str]:
    arguments = [
        str(server.executable),
        f"--model-repository={options.repository}",
        f"--grpc-address={options.host}",
        f"--grpc-port={options.grpc_port}",
        f"--exit-timeout-secs={options.exit_timeout_s}",
        f"--log-verbose={options.verbose}",
        f"--backend-config=python,shm-default-byte-size={SHARED_MEMORY_BYTES}",
    ]
    if server.backend_directory is not None:
        arguments += [f"--backend-directory={server.backend_directory}", "--allow-gpu-metrics=false"]
    if options.http_port is None:
        arguments.append("--allow-http=false")
    else:
        arguments += [f"--http-address={options.host}", f"--http-port={options.http_port}"]
    if options.metrics_port is None:
        arguments.append("--allow-metrics=false")
    else:
        arguments += [f"--metrics-address={options.host}", f"--metrics-port={options.metrics_port}"]
    return arguments


def server_environment(server: Tritonserver, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`environment` and what the server needs. The stub process embeds a Python of its own; it finds this one's packages by PYTHONPATH,
    and this one's home by the first `python3` on PATH."""
    result = dict(environment)
    result["PYTHONUTF8"] = "1"  # text is UTF-8 whatever the locale says
    result.setdefault("CI", "true")  # OpenVINO sends a usage event whenever it is imported, unless this says that it runs in CI
    result["TOKENIZERS_PARALLELISM"] = "false"  # short texts, many streams: threads of its own only get in the engine's way
    for name, folders in (("LD_LIBRARY_PATH", server.library_path), ("PYTHONPATH", server.module_path)):
        if folders:
            given = [part for part in environment.get(name, "").split(os.pathsep) if part]
            result[name] = os.pathsep.join([*given, *map(str, folders)] if name == "PYTHONPATH" else [*map(str, folders), *given])
    if server.module_path:
        result["PATH"] = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), environment.get("PATH", "")]))
    return result
