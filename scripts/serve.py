#!/usr/bin/env python3
"""Serve the model repository with a tritonserver in the foreground: the system's if there is one, else the embedded one.

TRITONSERVER in the environment names another server. Settings of the models: docs/operations.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from embedded.command import ServerOptions, server_arguments, server_environment
from embedded.installation import NoServerError, find_tritonserver
from embedded.lifetime import end_with_parent
from embedded.ports import free_ports

REPOSITORY = Path(__file__).resolve().parents[1] / "model_repository"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=REPOSITORY, metavar="DIR", help="the model repository (default: this one's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, 0.0.0.0 for all (default: %(default)s)")
    parser.add_argument("--grpc-port", type=_port, default=8001, metavar="N", help="0 for any free one (default: %(default)s)")
    parser.add_argument("--http-port", type=_port_or_off, default=None, metavar="N|off", help="0 for any free one (default: off)")
    parser.add_argument(
        "--metrics-port", type=_port_or_off, default=8002, metavar="N|off", help="0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--exit-timeout-s", type=int, default=5, metavar="S", help="time that running streams get at the end (default: %(default)s)"
    )
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process, which starts the server, ends")
    parser.add_argument("--verbose", type=int, default=0, metavar="LEVEL", help="Triton's --log-verbose (default: %(default)s)")
    parser.add_argument("more", nargs="*", metavar="-- --OPTION", help="behind --: tritonserver's own, such as --grpc-use-ssl=true")
    given = parser.parse_args(arguments)
    if not given.repository.is_dir():
        parser.error(f"no model repository at {given.repository}")
    try:
        if given.parent is not None:
            end_with_parent(given.parent)
        server = find_tritonserver()
        free = iter(free_ports([given.grpc_port, given.http_port, given.metrics_port].count(0), given.host))
    except (NoServerError, OSError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return 1
    options = ServerOptions(
        repository=given.repository.resolve(),
        grpc_port=given.grpc_port or next(free),
        http_port=next(free) if given.http_port == 0 else given.http_port,
        metrics_port=next(free) if given.metrics_port == 0 else given.metrics_port,
        host=given.host,
        exit_timeout_s=given.exit_timeout_s,
        verbose=given.verbose,
        more=given.more,
    )
    print(f"serve: {server.executable}, gRPC on {options.host}:{options.grpc_port}", file=sys.stderr, flush=True)
    os.execve(server.executable, server_arguments(server, options), server_environment(server))


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise argparse.ArgumentTypeError(f"a port is 0 to 65535, not {port}")
    return port


def _port_or_off(text: str) -> int | None:
    return None if text == "off" else _port(text)


if __name__ == "__main__":
    sys.exit(main())
