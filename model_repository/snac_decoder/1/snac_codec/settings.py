"""Settings of the model: defaults in config.pbtxt `parameters`, overridden by environment variables, unknown keys refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

ENVIRONMENT_PREFIX = "SNAC_"


@dataclass(frozen=True)
class Settings:
    """A parameter `name` of config.pbtxt is overridden by the environment variable SNAC_NAME.

    folder: the codec (config.json, decoder.onnx), absolute or relative to the model's version folder.
    threads: forwards that run side by side, each on one core; 0 for as many as there are cores.
    max_rows: windows of one length in one forward. A processor gains nothing from more: the activations leave its cache.
    max_frames: longer windows are refused; every length up to warm_frames is warmed before the model is ready.
    """

    folder: str
    threads: int
    max_rows: int
    max_frames: int
    warm_frames: int

    def path(self, version_folder: Path) -> Path:
        return version_folder / self.folder


_LEAST = {"threads": 0, "max_rows": 1, "max_frames": 1, "warm_frames": 0}


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
    return Settings(folder=values["folder"], **numbers)
