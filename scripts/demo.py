#!/usr/bin/env python3
"""Start the server, speak one text into a file with the command line client, stop the server.

The text is read from the environment variable ORPHEUS_DEMO_TEXT, which keeps every character whatever shell and make do with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from embedded.running import RunningServer, ServerFailedError

TEXT_VARIABLE = "ORPHEUS_DEMO_TEXT"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="demo.wav", metavar="FILE", help="WAV to write (default: %(default)s)")
    given = parser.parse_args(arguments)
    text = os.environ.get(TEXT_VARIABLE, "")
    if not text.strip():
        parser.error(f"no text in {TEXT_VARIABLE}")
    progress = StartProgress()
    try:
        with RunningServer(progress=progress.update) as server:
            progress.done()
            return speak(server.grpc_url, text, given.out)
    except ServerFailedError as error:
        progress.done()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def speak(url: str, text: str, out: str) -> int:
    """The text goes through standard input: there it may begin with a dash and be of any length."""
    orpheus = Path(sys.executable).with_name("orpheus")
    command = [str(orpheus), "say", "--url", url, "--out", out, "-"]
    return subprocess.run(command, input=text.encode("utf-8", "surrogateescape"), check=False).returncode


class StartProgress:
    """One line on a terminal, a line now and then elsewhere, while the server loads and warms up its models."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next_s = 0.0
        self._waited_s = 0.0

    def update(self, waited_s: float) -> None:
        self._waited_s = waited_s
        if waited_s < self._next_s:
            return
        self._next_s = waited_s + (0.2 if self._terminal else 5.0)
        line = f"starting the server ... {waited_s:.0f} s"
        sys.stderr.write(f"\r{line}\x1b[K" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def done(self) -> None:
        line = f"server up after {self._waited_s:.1f} s"
        sys.stderr.write(f"\r{line}\x1b[K\n" if self._terminal else f"{line}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
