"""Gathered from this machine; nothing is judged here."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedded.installation import NoServerError, find_tritonserver
from snac_codec.config import load_config
from speech_lm.voice import load_voice

PACKAGES = (
    "numpy",
    "nvidia-pytriton",
    "openvino-genai",
    "onnxruntime",
    "onnxruntime-gpu",
    "torch",
    "tensorrt-llm",
    "tokenizers",
    "hibari-tts",
    "tritonclient",
)


@dataclass(frozen=True)
class Gpu:
    """compute: capability such as 8.9."""

    name: str
    driver: str
    compute: float
    total_bytes: int


@dataclass(frozen=True)
class Facts:
    """packages: version by name, of those that are installed. A text in the place of a folder's facts says what is wrong with it."""

    python: tuple[int, int]
    packages: dict[str, str]
    server: str | None
    server_problem: str
    gpus: list[Gpu]
    shared_memory_bytes: int
    memory_bytes: int
    busy_ports: list[int]
    voice_problem: str = ""
    voice_codebook: int = 0
    voice_frontend: str = ""
    voice_files: list[str] = field(default_factory=list[str])
    voice_weight_bytes: int = 0
    voice_config: dict[str, Any] = field(default_factory=dict[str, Any])
    voice_quantized: bool = False
    codec_problem: str = ""
    codec_codebook: int = 0
    codec_files: list[str] = field(default_factory=list[str])


def gather(voice_folder: Path, codec_folder: Path, ports: list[int]) -> Facts:
    server, server_problem = _server()
    return Facts(
        python=sys.version_info[:2],
        packages=_packages(),
        server=server,
        server_problem=server_problem,
        gpus=gpus(),
        shared_memory_bytes=shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        busy_ports=[port for port in ports if _busy(port)],
        **_voice(voice_folder),
        **_codec(codec_folder),
    )


def _packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _server() -> tuple[str | None, str]:
    try:
        return str(find_tritonserver().executable), ""
    except NoServerError as error:
        return None, str(error)


def gpus(command: str = "nvidia-smi") -> list[Gpu]:
    """Empty where there is no driver."""
    query = [command, "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    found: list[Gpu] = []
    for line in filter(str.strip, lines):
        name, driver, compute, mebibytes = (part.strip() for part in line.rsplit(",", 3))
        found.append(Gpu(name, driver, float(compute), int(mebibytes) << 20))
    return found


def _busy(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _voice(folder: Path) -> dict[str, Any]:
    files = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    weights = [folder / name for name in files if name.endswith((".safetensors", ".bin"))]
    try:
        voice = load_voice(folder)
    except ValueError as error:
        return {"voice_problem": str(error), "voice_files": files}
    config = folder / "config.json"
    return {
        "voice_codebook": voice.tokens.codebook_size,
        "voice_frontend": voice.frontend.kind,
        "voice_problem": "" if voice.frontend.file in files else f"{folder / voice.frontend.file} is missing",
        "voice_files": files,
        "voice_weight_bytes": sum(path.stat().st_size for path in weights),
        "voice_config": json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {},
        "voice_quantized": "hf_quant_config.json" in files,
    }


def _codec(folder: Path) -> dict[str, Any]:
    files = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    try:
        return {"codec_codebook": load_config(folder).codebook_size, "codec_files": files}
    except ValueError as error:
        return {"codec_problem": str(error), "codec_files": files}
