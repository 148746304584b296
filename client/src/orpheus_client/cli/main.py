"""The command `orpheus`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from ..errors import OrpheusError
from .arguments import build_parser
from .bench import bench
from .drain import drain
from .exit_codes import ExitCode, exit_code
from .say import say
from .server import health, voices

COMMANDS = {"say": say, "voices": voices, "health": health, "drain": drain, "bench-lite": bench}


def main(arguments: Sequence[str] | None = None) -> int:
    """-> exit code. Interrupted or terminated, it leaves its streams in order: the server is told to stop."""
    parsed = build_parser().parse_args(arguments)
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        return COMMANDS[parsed.command](parsed)
    except OrpheusError as error:
        if parsed.json:
            facts = {"type": type(error).__name__, "message": str(error), "retryable": error.retryable, "request_id": error.request_id}
            print(json.dumps({"error": facts}), file=sys.stderr)
        else:
            print(f"orpheus: {type(error).__name__}: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print("orpheus: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output at exit and would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CLOSED_PIPE
    except OSError as error:
        print(f"orpheus: {error}", file=sys.stderr)
        return ExitCode.FAILED
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(ExitCode.TERMINATED)
