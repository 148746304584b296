"""Triton's perf_analyzer: found or installed, run on the ensemble, its export read.

Installed without root and without a container: the binary travels inside `tritonclient`'s wheels for x86-64 Linux (seen in 2.41 to
2.60; 2.73 has none). That of 2.60 needs glibc 2.38; on an older one that of 2.51 does, with two libraries beside it, libcudart from
`nvidia-cuda-runtime-cu12` (PyPI) and libb64 from Debian's or Ubuntu's package of that name. The project named `perf-analyzer` on PyPI
was an empty placeholder where we looked (0.1.0).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from orpheus_client.measuring import judged
from orpheus_client.timings import Timeline
from orpheus_client.wire import SAMPLE_RATE_HZ

from loadgen.driver import Record

VARIABLE = "PERF_ANALYZER"
MODEL = "orpheus_tts"
NEWER, NEWER_GLIBC, OLDER = "tritonclient==2.60.0", (2, 38), "tritonclient==2.51.0"
CUDA_RUNTIME, BASE64_PACKAGE = "nvidia-cuda-runtime-cu12==12.9.79", "libb64-0d"


class NoPerfAnalyzerError(RuntimeError):
    """There is none to run, and none could be installed; the message says what to do."""


@dataclass(frozen=True)
class PerfAnalyzer:
    executable: Path
    library_path: tuple[Path, ...] = ()

    def environment(self) -> dict[str, str]:
        if not self.library_path:
            return dict(os.environ)
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, self.library_path))}

    def version(self) -> str:
        done = subprocess.run([self.executable, "--version"], env=self.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoPerfAnalyzerError(f"{self.executable} does not run here: {done.stderr.strip() or done.stdout.strip()}")
        said = (done.stdout + done.stderr).strip()  # which of the two differs from version to version
        return said.splitlines()[-1] if said else "perf_analyzer"


def find_perf_analyzer(folder: Path) -> PerfAnalyzer:
    """The one that PERF_ANALYZER names, else the one on PATH, else that in `folder`, where it is installed on first use. Raises
    NoPerfAnalyzerError."""
    named = os.environ.get(VARIABLE) or shutil.which("perf_analyzer")
    if named:
        return PerfAnalyzer(Path(named))
    newer = _glibc() >= NEWER_GLIBC
    ready = PerfAnalyzer(folder / "perf_analyzer", () if newer else (folder,))
    if not ready.executable.exists():
        if platform.machine() != "x86_64":
            raise NoPerfAnalyzerError(f"tritonclient's wheels have no perf_analyzer for {platform.machine()}: name one in {VARIABLE}")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            _install(Path(temporary), folder, newer)
    return ready


def _glibc() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.libc_ver()[1].split(".") if part.isdecimal())


def _install(temporary: Path, folder: Path, newer: bool) -> None:
    if not newer:
        _extract(_wheel(CUDA_RUNTIME, temporary), "libcudart.so.12", folder)
        _base64_library(temporary, folder)
    _extract(_wheel(NEWER if newer else OLDER, temporary), "perf_analyzer", folder)  # last: it marks the folder as complete


def _wheel(requirement: str, temporary: Path) -> Path:
    target = temporary / requirement.partition("=")[0]
    _run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={target}", requirement], temporary
    )
    return next(target.glob("*.whl"))


def _extract(wheel: Path, name: str, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.namelist() if member.rpartition("/")[2] == name]
        if not members:
            raise NoPerfAnalyzerError(f"{wheel.name} holds no {name}")
        (folder / name).write_bytes(archive.read(members[0]))
    (folder / name).chmod(0o755)


def _base64_library(temporary: Path, folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NoPerfAnalyzerError(f"perf_analyzer for this glibc needs libb64.so.0d: install it, and name a perf_analyzer in {VARIABLE}")
    _run(["apt-get", "download", BASE64_PACKAGE], temporary)
    _run(["dpkg-deb", "--extract", f"{next(temporary.glob('*.deb'))}", "unpacked"], temporary)
    shutil.copyfile(next(temporary.glob("unpacked/**/libb64.so.0d*")), folder / "libb64.so.0d")


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoPerfAnalyzerError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def sweep_point(analyzer: PerfAnalyzer, url: str, texts: Sequence[str], concurrency: int, n: int) -> tuple[list[Record], float]:
    """n utterances, `concurrency` at a time, each text in turn -> the records, and the seconds that all took. Raises RuntimeError with
    perf_analyzer's own words where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, export = Path(folder) / "inputs.json", Path(folder) / "export.json"
        inputs.write_text(json.dumps({"data": [{"TEXT": [text]} for text in texts]}), encoding="utf-8")
        # One concurrency per run: --request-count works with no more. Decoupled models need --streaming and --async.
        command = [
            *(f"{analyzer.executable}", "-m", MODEL, "-u", url, "-i", "grpc", "--streaming", "--async"),
            *(f"--input-data={inputs}", "--shape=TEXT:1", f"--profile-export-file={export}"),
            *(f"--concurrency-range={concurrency}", f"--request-count={n}"),
        ]
        done = subprocess.run(command, env=analyzer.environment(), capture_output=True, text=True, check=False)
        if done.returncode or not export.exists():
            raise RuntimeError(f"perf_analyzer failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return read_export(json.loads(export.read_text(encoding="utf-8")))


def read_export(export: Any) -> tuple[list[Record], float]:
    """Of its only experiment. What perf_analyzer prints as latency ends at the last chunk; the time to first audio is in here."""
    requests = sorted(export["experiments"][0]["requests"], key=lambda request: request["timestamp"])
    began_s = requests[0]["timestamp"] / 1e9
    records = [_record(request, began_s) for request in requests]
    return records, max(record.began_s + record.run.timings.total_s for record in records)


def _record(request: Any, began_s: float) -> Record:
    at_s, text = request["timestamp"] / 1e9, request["request_inputs"]["TEXT"]
    timeline = Timeline(at_s, SAMPLE_RATE_HZ)
    reason, error = "", ""
    for index, (at_ns, output) in enumerate(zip(request["response_timestamps"], request["response_outputs"], strict=True)):
        if "AUDIO" not in output:
            error = "NoAudio"
            break
        if output["INDEX"] != index:
            error = "OutOfOrder"
        timeline.add(np.asarray(_numbers(output["AUDIO"]), np.int16), at_ns / 1e9)
        reason = output["FINISH_REASON"] or reason
    if not error and not timeline.is_audible:
        error = "EmptySpeech"
    return Record(judged(timeline.timings(), text, error, reason), len(text), at_s - began_s, 0.0)


def _numbers(value: Any) -> Sequence[int]:
    """A tensor of one element is exported as a bare number, one of none as an empty string."""
    if isinstance(value, list):
        return cast("list[int]", value)
    return () if value == "" else (int(value),)
