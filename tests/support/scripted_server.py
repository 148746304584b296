"""A real server whose language model plays scripts: exact answers, and faults on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from embedded.repository import copy_repository
from embedded.running import RunningServer
from embedded.vitals import metric
from numpy.typing import NDArray

from support import scripted_engine
from support.raw import Response, ask, decode, text
from support.scripted_engine import FILE_VARIABLE, Script, write_scripts
from support.server import MODEL_REPOSITORY, StartServer

CODEBOOK_SIZE = 512


@dataclass
class ScriptedServer:
    """The seed of a request picks its script."""

    running: RunningServer
    scripts: Path

    @property
    def url(self) -> str:
        return self.running.grpc_url

    def play(self, default: Script | None = None, by_seed: Mapping[int, Script] | None = None) -> None:
        write_scripts(self.scripts, default, by_seed)

    def speak(self, seed: int = 0, said: str = "Hello there.", **options: Any) -> list[Response]:
        return ask(self.url, "orpheus_tts", {"TEXT": text(said), "SEED": np.array([seed], np.int64), **options})

    def whole(self, script: Script) -> NDArray[np.int16]:
        """What a script without faults sounds like, decoded in one piece."""
        return decode(self.url, np.array(script.codes(CODEBOOK_SIZE), np.int32))

    def metric(self, name: str) -> float:
        """A metric of ours, summed over its labels; 0 where it has not been published yet."""
        return metric(self.running, name)


def audio(responses: list[Response]) -> NDArray[np.int16]:
    return np.concatenate([response.outputs["AUDIO"] for response in responses])


def start_scripted(start_server: StartServer, folder: Path, **parameters: str) -> ScriptedServer:
    """parameters: of orpheus_lm."""
    repository = copy_repository(
        MODEL_REPOSITORY,
        folder / "models",
        parameters={"orpheus_lm": {"engine": "scripted_engine:ScriptedEngine", **parameters}},
        modules={"orpheus_lm": [Path(scripted_engine.__file__)]},
    )
    scripts = folder / "scripts.json"
    write_scripts(scripts)
    return ScriptedServer(start_server(repository, environment={FILE_VARIABLE: str(scripts)}), scripts)
