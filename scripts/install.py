#!/usr/bin/env python3
"""Make a virtual environment from requirement files, or leave it alone if it already is what they say.

    python3 scripts/install.py .venv requirements/server.txt --editable client

Needs the standard library only. What the environment was made from is noted in it, so that later calls end at once.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# Our syntax needs the one; the embedded tritonserver needs NumPy below 2, which has no wheels for a newer one than the other.
OLDEST, NEWEST = (3, 10), (3, 12)
NOTE = "made-from.txt"
INCLUDED = re.compile(r"^-r\s+(\S+)", re.MULTILINE)


class InstallError(Exception):
    """The message says what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the virtual environment")
    parser.add_argument("requirements", type=Path, help="requirement file")
    parser.add_argument("--editable", type=Path, metavar="DIR", help="a package of this repository to install with it")
    given = parser.parse_args(arguments)
    try:
        install(given.folder, given.requirements, given.editable)
    except InstallError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    return 0


def install(folder: Path, requirements: Path, editable: Path | None) -> None:
    """Raises InstallError. An environment that was left incomplete is made anew."""
    wanted = fingerprint(requirements, editable)
    note = folder / NOTE
    if note.is_file() and note.read_text() == wanted and (folder / "bin" / "python").exists():
        return
    check_python()
    began = time.monotonic()
    note.unlink(missing_ok=True)
    say(f"{folder}: new virtual environment with {sys.executable}")
    run([sys.executable, "-m", "venv", "--clear", str(folder)], folder)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r", str(requirements)]
    run(command if editable is None else [*command, "--editable", str(editable)], folder)
    note.write_text(wanted)
    say(f"{folder}: ready after {time.monotonic() - began:.0f} s")


def fingerprint(requirements: Path, editable: Path | None) -> str:
    """Changes whenever the environment has to be made anew: with the files' content, the Python, or the machine."""
    files = included(requirements) + ([editable / "pyproject.toml"] if editable else [])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}" for file in files]
    return "\n".join([f"Python {platform.python_version()} {platform.machine()} {sys.base_prefix}", *lines]) + "\n"


def included(requirements: Path) -> list[Path]:
    """The file and all files that it includes."""
    names = INCLUDED.findall(requirements.read_text())
    return [requirements, *(file for name in names for file in included(requirements.parent / name))]


def check_python() -> None:
    if not OLDEST <= sys.version_info[:2] <= NEWEST or platform.python_implementation() != "CPython":
        raise InstallError(
            f"needs CPython 3.{OLDEST[1]} to 3.{NEWEST[1]}, and {sys.executable} is {platform.python_implementation()} "
            f"{platform.python_version()}; name another: make PYTHON=python3.11 ..."
        )
    if not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):  # Debian splits them off
        raise InstallError(
            f"{sys.executable} cannot make virtual environments; on Debian and Ubuntu: apt install python3.{sys.version_info[1]}-venv"
        )


def run(command: list[str], folder: Path) -> None:
    """Run with one line of progress; the output goes to a file and is shown only when it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder.parent / f"{folder.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        _follow(process, log)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode:
        raise InstallError(f"{' '.join(command)}\nended with exit status {process.returncode}:\n{log.read_text(errors='replace')[-4000:]}")
    log.unlink()


def _follow(process: subprocess.Popen[bytes], log: Path) -> None:
    began, shown_s = time.monotonic(), 0.0
    terminal = sys.stderr.isatty()
    every_s = 0.5 if terminal else 20.0
    while True:
        try:
            process.wait(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            waited_s = time.monotonic() - began
            if waited_s - shown_s >= every_s:
                shown_s = waited_s
                line = f"  {waited_s:4.0f} s  {_last_line(log)[:100]}"
                sys.stderr.write(f"\r{line}\x1b[K" if terminal else f"{line}\n")
                sys.stderr.flush()
    if terminal and shown_s:
        sys.stderr.write("\r\x1b[K")


def _last_line(log: Path) -> str:
    """pip's last line that says what it is doing; its bars and warnings do not."""
    lines = (line.strip() for line in reversed(log.read_text(errors="replace").splitlines()))
    return next((line for line in lines if line[:1].isalpha() and not line.startswith("WARNING")), "")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
