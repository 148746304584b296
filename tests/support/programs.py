"""Stand-ins for programs."""

from __future__ import annotations

from pathlib import Path


def executable(file: Path, script: str = "exit 7") -> Path:
    """A shell script at `file`, whose folder need not exist."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file
