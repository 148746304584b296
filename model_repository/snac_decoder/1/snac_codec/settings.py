"""Settings of the model: defaults in config.pbtxt `parameters`, overridden by environment variables, unknown keys refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

ENVIRONMENT_PREFIX = "SNAC_"
MOST_STREAMS = 16
"""Forwards side by side on a large machine: each costs memory for every tile size, and few windows are there at once."""


@dataclass(frozen=True)
class Settings:
    """A parameter `name` of config.pbtxt is overridden by the environment variable SNAC_NAME.

    folder: the codec, absolute or relative to the model's version folder: config.json, and decoder.onnx or, for torch, SNAC's weights.
    engine: openvino, onnxruntime or torch. device: cpu, cuda or (onnxruntime) tensorrt. precision: float32, float16 or bfloat16.
    threads: forwards that run side by side on a processor, each on one core; 0 for as many as there are cores, at most 16.
    max_rows: tiles in one forward, on a GPU.
    max_frames: longer windows are refused.
    tile_latents: sizes of the tiles that windows are cut into, in latents, with commas between; every one is warmed before the model is
    ready.
    """

    folder: str
    engine: str
    device: str
    precision: str
    threads: int
    max_rows: int
    max_frames: int
    tile_latents: tuple[int, ...]

    def path(self, version_folder: Path) -> Path:
        return version_folder / self.folder

    @property
    def calls(self) -> int:
        return self.threads or min(len(os.sched_getaffinity(0)), MOST_STREAMS)


_LEAST = {"threads": 0, "max_rows": 1, "max_frames": 1}
_CHOICES = {
    "engine": ("openvino", "onnxruntime", "torch"),
    "device": ("cpu", "cuda", "tensorrt"),
    "precision": ("float32", "float16", "bfloat16"),
}


def load_settings(parameters: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises ValueError that names the key for an unknown, missing or unfit one, in either place. Parameters in capitals are Triton's
    own."""
    parameters = {name: value for name, value in parameters.items() if not name.isupper()}
    overrides = {key[len(ENVIRONMENT_PREFIX) :].lower(): value for key, value in environment.items() if key.startswith(ENVIRONMENT_PREFIX)}
    names = [f.name for f in fields(Settings)]
    for given, shown in ((parameters, "config.pbtxt parameter {}"), (overrides, "environment variable " + ENVIRONMENT_PREFIX + "{}")):
        for name in given:
            if name not in names:
                raise ValueError(f"unknown {shown.format(name if given is parameters else name.upper())}; known are {', '.join(names)}")
    values = parameters | overrides
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"config.pbtxt lacks the parameters {', '.join(missing)}")
    numbers: dict[str, int] = {}
    for name, least in _LEAST.items():
        if not values[name].isdecimal() or int(values[name]) < least:
            raise ValueError(f"{name} must be a whole number from {least} on, not {values[name]!r}")
        numbers[name] = int(values[name])
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {values[name]!r}")
    return Settings(
        values["folder"], values["engine"], values["device"], values["precision"], **numbers, tile_latents=_sizes(values["tile_latents"])
    )


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"tile_latents must be whole numbers from 1 on with commas between, not {text!r}")
    return tuple(sorted({int(part) for part in parts}))
