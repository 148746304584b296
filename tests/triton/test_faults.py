"""Parts that break: the caller is told, its neighbours are served, and a server that cannot be right does not get ready."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from embedded.repository import copy_repository
from embedded.running import RunningServer, ServerFailedError
from embedded.vitals import wait_until_idle
from orpheus_client import ChunkTimeout, Client, OrpheusError, ServerError, StreamBroken, Timeouts
from orpheus_client.cli.main import main
from support.scripted_engine import Script
from support.scripted_server import CODEBOOK_SIZE, ScriptedServer, audio, start_scripted
from support.server import MODEL_REPOSITORY, StartServer, server_python

HARMFUL = CODEBOOK_SIZE - 1
HARM = f"""
_unharmed = decode_windows
def decode_windows(engine, windows, pool):
    for at, result in _unharmed(engine, windows, pool):
        yield at, RuntimeError("harmed") if {HARMFUL} in windows[at].codes[6::7] else result
"""
TEXT = "The train to London leaves at half past nine, and the last one back at ten."


@pytest.fixture(scope="module")
def harmed(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> ScriptedServer:
    """Its codec fails on windows that hold a certain code in a frame's last slot."""
    folder = tmp_path_factory.mktemp("harmed")

    def start(
        repository: Path = MODEL_REPOSITORY, *, environment: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
    ) -> RunningServer:
        with (repository / "snac_decoder/1/model.py").open("a") as file:
            file.write(HARM)
        return start_server(repository, environment=environment, arguments=arguments)

    return start_scripted(start, folder)


def test_a_codec_that_fails_in_mid_stream_is_no_clean_end(harmed: ScriptedServer) -> None:
    """Its neighbours, in the same batches, hear every sample."""
    good = Script(frames=24, tokens_per_s=400)
    bad = Script(frames=24, tokens_per_s=400, faults={7 * 10 + 6: "last"})
    assert all(frame[6] != HARMFUL for frame in good.codes(CODEBOOK_SIZE))
    harmed.play(good, by_seed={1: bad})
    with Client(harmed.url) as client:
        neighbours = [client.stream("Hello there.", seed=seed, chunk_frames=2) for seed in (2, 3)]
        with client.stream("Hello there.", seed=1, chunk_frames=2) as speech, pytest.raises(StreamBroken, match="the codec failed: harmed"):
            list(speech)
        assert 0 < speech.timings.audio_s < 24 * 2048 / 24000
        for neighbour in neighbours:
            with neighbour:
                np.testing.assert_array_equal(np.concatenate([chunk.samples for chunk in neighbour]), harmed.whole(good))
    wait_until_idle(harmed.running)
    assert len(audio(harmed.speak(seed=2))) == 24 * 2048


@pytest.mark.parametrize("model", ["snac_decoder", "orpheus_lm"])
def test_a_killed_model_process_breaks_its_streams(start_server: StartServer, model: str) -> None:
    """Triton 2.51 reports a dead model only where a request is inside it; between two windows the client's own clock ends the wait. It does
    not start the process anew, and its own readiness may go on saying yes: `orpheus health --speak` says no."""
    server = start_server()
    [pid] = [pid for pid in server.stub_pids() if f"/{model}/" in Path(f"/proc/{pid}/cmdline").read_text()]
    with (
        Client(server.grpc_url, timeouts=Timeouts(between_chunks_s=10, close_s=1)) as client,
        client.stream(TEXT, chunk_frames=1) as speech,
    ):
        next(speech)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(OrpheusError) as caught:
            for _ in speech:
                pass
    assert isinstance(caught.value, (StreamBroken, ChunkTimeout, ServerError))
    assert main(["health", "--speak", "--url", server.grpc_url]) != 0


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def wrong_codebook(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "codebook_size": 1024}))


@pytest.mark.parametrize(
    ("file", "harm", "message"),
    [
        ("orpheus_lm/1/pocket/openvino_model.bin", remove, "holds no openvino_model.bin"),
        ("orpheus_lm/1/pocket/openvino_model.bin", cut, "OpenVINO failed"),
        ("orpheus_lm/1/pocket/voice.json", remove, "voice.json is missing"),
        ("orpheus_lm/1/pocket/voice.json", cut, "voice.json is not JSON"),
        ("snac_decoder/1/pocket/decoder.onnx", remove, "decoder.onnx"),
        ("snac_decoder/1/pocket/decoder.onnx", cut, "decoder.onnx"),
        ("snac_decoder/1/pocket/config.json", wrong_codebook, "was made for a codebook size of 512, config.json says 1024"),
    ],
)
def test_a_server_with_broken_weights_says_which(tmp_path: Path, file: str, harm: Callable[[Path], None], message: str) -> None:
    repository = copy_repository(MODEL_REPOSITORY, tmp_path / "models")
    harm(repository / file)
    with pytest.raises(ServerFailedError, match=message):
        RunningServer(repository, python=server_python(), ready_timeout_s=60).start()
