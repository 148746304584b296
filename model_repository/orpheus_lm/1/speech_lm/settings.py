"""Settings of the model: defaults in config.pbtxt `parameters`, overridden by environment variables, unknown keys refused.

The table below is the only list; docs/operations.md is checked against it by a test.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

ENVIRONMENT_PREFIX = "ORPHEUS_LM_"


@dataclass(frozen=True)
class Settings:
    """A parameter `name` of config.pbtxt is overridden by the environment variable ORPHEUS_LM_NAME.

    engine: openvino, tensorrt_llm, or module:Class for an engine of one's own, in the version folder.
    folder: the voice (voice.json and its model), absolute or relative to the model's version folder.
    threads: of the engine, 0 for its own choice.
    max_streams: streams served at once; one more is refused with UNAVAILABLE.
    max_text_characters: longer TEXT is refused.
    max_chunk_frames: the most new frames in one chunk (85.33 ms each with SNAC 24 kHz), also for CHUNK_FRAMES.
    comfort_ms: audio in the listener's buffer under which chunks leave as soon as they can.
    lookahead_latents: right context of the first chunk; -1 for exact, fewer than the codec's for an earlier, approximate one.
    max_outstanding_windows: windows per stream that the codec has not acknowledged; more wait.
    dead_stream_ms: a stream whose windows the codec has not acknowledged for so long, though it could have, is given up.
    segments_ahead: segments of a long text generated before they are due.
    """

    engine: str
    folder: str
    threads: int
    max_streams: int
    max_text_characters: int
    max_chunk_frames: int
    comfort_ms: int
    lookahead_latents: int
    max_outstanding_windows: int
    dead_stream_ms: int
    segments_ahead: int

    def path(self, version_folder: Path) -> Path:
        return version_folder / self.folder


_LEAST = {
    "threads": 0,
    "max_streams": 1,
    "max_text_characters": 1,
    "max_chunk_frames": 1,
    "comfort_ms": 0,
    "lookahead_latents": -1,
    "max_outstanding_windows": 1,
    "dead_stream_ms": 100,
    "segments_ahead": 0,
}


def load_settings(parameters: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises ValueError that names the key for an unknown, missing or unfit one, in either place.

    Parameters in capitals are Triton's own for its python backend (EXECUTION_ENV_PATH and the like) and none of ours.
    """
    parameters = {name: value for name, value in parameters.items() if not name.isupper()}
    names = [f.name for f in fields(Settings)]
    overrides = {key[len(ENVIRONMENT_PREFIX) :].lower(): value for key, value in environment.items() if key.startswith(ENVIRONMENT_PREFIX)}
    for where, given in (("config.pbtxt parameter", parameters), ("environment variable", overrides)):
        for name in given:
            if name not in names:
                shown = name if given is parameters else ENVIRONMENT_PREFIX + name.upper()
                raise ValueError(f"unknown {where} {shown!r}; known are {', '.join(names)}")
    values: dict[str, str] = dict(parameters) | overrides
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"config.pbtxt lacks the parameters {', '.join(missing)}")
    numbers = {name: _number(name, values[name]) for name in _LEAST}
    return Settings(engine=values["engine"], folder=values["folder"], **numbers)


def _number(name: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None
    if number < _LEAST[name]:
        raise ValueError(f"{name} must be at least {_LEAST[name]}, not {number}")
    return number
