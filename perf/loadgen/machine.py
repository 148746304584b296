"""Where and on what a measurement was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tritonclient", "grpcio", "numpy")
TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_int8")


def fingerprint() -> dict[str, Any]:
    """Of this machine and moment: processor, cores that may be used, memory, load before the run, versions and commit."""
    cpu = _first_of("/proc/cpuinfo")
    memory_kb = int(_first_of("/proc/meminfo").get("MemTotal", "0 kB").split()[0])
    return {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "processor": cpu.get("model name", platform.processor() or platform.machine()),
        "flags": [flag for flag in TELLING_FLAGS if flag in cpu.get("flags", "").split()],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb / 1e6, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": _versions(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "--untracked-files=no") else ""),
    }


def _first_of(path: str) -> dict[str, str]:
    """`name : value` lines of a file in /proc, the first of each name."""
    fields: dict[str, str] = {}
    with suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            name, colon, value = line.partition(":")
            if colon:
                fields.setdefault(name.strip(), value.strip())
    return fields


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", f"{ROOT}", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
