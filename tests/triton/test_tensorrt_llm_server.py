"""The engine for TensorRT-LLM inside a real server, over real gRPC, down to samples: only the library itself is a fake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedded.repository import copy_repository
from embedded.running import RunningServer
from export_codec import export
from orpheus_client import Client, OrpheusError
from support import fake_tensorrt_llm, tiny_orpheus
from support.random_snac import random_snac, save_snac
from support.raw import ask, frames_of, text
from support.server import MODEL_REPOSITORY, StartServer
from support.whole import on_onnxruntime, whole_decode

FRAMES = 30  # what support/server_modules/tensorrt_llm.py says to every prompt
SAID = "The train leaves at half past nine."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tensorrt_llm")


@pytest.fixture(scope="module")
def server(start_server: StartServer, folder: Path) -> RunningServer:
    tiny_orpheus.build_checkpoint(folder / "voice")
    (folder / "voice" / "voice.json").write_text(json.dumps(tiny_orpheus.VOICE))
    (folder / "voice" / "engine.yaml").write_text("max_seq_len: 2048\n")
    export(save_snac(random_snac(), folder / "checkpoint"), folder / "snac")
    fake = Path(fake_tensorrt_llm.__file__)
    modules = [fake, fake.with_name("tensorrt_llm_api.json"), fake.with_name("server_modules") / "tensorrt_llm.py"]
    repository = copy_repository(
        MODEL_REPOSITORY, folder / "models", parameters={"orpheus_lm": {"engine": "tensorrt_llm"}}, modules={"orpheus_lm": modules}
    )
    settings = {"ORPHEUS_LM_FOLDER": folder / "voice", "SNAC_FOLDER": folder / "snac", "FAKE_TENSORRT_LLM_FAILS": folder / "fails"}
    return start_server(repository, environment={name: str(value) for name, value in settings.items()})


def test_streamed_audio_equals_the_whole_decode(server: RunningServer, folder: Path) -> None:
    given: dict[str, Any] = {"TEXT": text(SAID), "VOICE": text("leo")}
    codes = frames_of(ask(server.grpc_url, "orpheus_lm", {**given, "STANDALONE": np.array([True])}))
    assert codes.shape == (FRAMES, 7)
    responses = ask(server.grpc_url, "orpheus_tts", given)
    assert responses[-1].text("FINISH_REASON") == "stop"
    audio = np.concatenate([response.outputs["AUDIO"] for response in responses])
    whole = whole_decode(on_onnxruntime(folder / "snac"), codes)
    assert len(audio) == len(whole) == 2048 * FRAMES
    assert np.abs(audio.astype(int) - whole.astype(int)).max() <= 1


def test_a_cancelled_stream_leaves_its_neighbour_alone(server: RunningServer) -> None:
    with Client(server.grpc_url) as client:
        alone = client.synthesize(SAID).samples
        with client.stream("Something else.", chunk_frames=1) as speech:
            next(speech)
        assert speech.finish_reason == "cancelled"
        np.testing.assert_array_equal(client.synthesize(SAID).samples, alone)


def test_a_failed_library_is_told_to_every_caller(server: RunningServer, folder: Path) -> None:
    """The last test of this file: the engine does not come back."""
    (folder / "fails").touch()
    with Client(server.grpc_url) as client:
        with pytest.raises(OrpheusError, match="the GPU has fallen off the bus"):
            client.synthesize(SAID)
        with pytest.raises(OrpheusError, match="the server must be restarted"):
            client.synthesize(SAID)
