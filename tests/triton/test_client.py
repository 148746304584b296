"""The client library against the real server: what it promises about ends, cancels, errors and neighbours."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from embedded.running import RunningServer
from orpheus_client import (
    AsyncClient,
    ChunkTimeout,
    Client,
    InvalidRequest,
    OrpheusError,
    Overloaded,
    ServerUnavailable,
    Speech,
    StreamBroken,
    Timeouts,
)
from orpheus_client.cli.main import main
from support.listen import Listen, listen_async, listen_sync
from support.server import StartServer

TEXT = "The train to London leaves at half past nine."
LONG = " ".join(["It rained all night, but the morning was clear and bright."] * 12)
EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_tritonclient.py"


@pytest.fixture(params=[listen_sync, listen_async], ids=["sync", "async"])
def listen(request: pytest.FixtureRequest) -> Listen:
    return request.param


def finished(server: RunningServer) -> float:
    """Requests of the ensemble that have ended, well or not."""
    names = ("nv_inference_request_success{", "nv_inference_request_failure{")
    return sum(value for name, value in server.metrics().items() if name.startswith(names) and 'model="orpheus_tts"' in name)


def settled(count: Callable[[RunningServer], float], server: RunningServer) -> float:
    """A count that earlier tests no longer move: Triton counts a request a little after its client has heard the end."""
    counts = [count(server)]
    while len(counts) < 4 or len(set(counts[-4:])) > 1:
        time.sleep(0.2)
        counts.append(count(server))
    return counts[-1]


def cancels(server: RunningServer) -> float:
    return server.metrics().get('orpheus_lm_cancels_total{cause="stop_request"}', 0.0)


def wait_for(count: Callable[[RunningServer], float], server: RunningServer, value: float, timeout_s: float = 15.0) -> None:
    until = time.monotonic() + timeout_s
    while count(server) != value and time.monotonic() < until:
        time.sleep(0.1)
    assert count(server) == value


def active_streams(server: RunningServer) -> float:
    return server.metrics()["orpheus_lm_active_streams"]


def test_an_utterance(server: RunningServer, listen: Listen) -> None:
    heard = listen(server.grpc_url, TEXT, seed=1)
    assert heard.error is None
    assert heard.finish_reason == "stop"
    samples = np.concatenate([chunk.samples for chunk in heard.chunks])
    assert len(samples) % 2048 == 0
    assert 1 < len(samples) / 24000 < 10
    assert [chunk.index for chunk in heard.chunks] == list(range(len(heard.chunks)))
    assert heard.timings.audio_s == len(samples) / 24000


def test_both_clients_get_the_same_audio_for_a_seed(server: RunningServer) -> None:
    with Client(server.grpc_url) as client:
        first = client.synthesize(TEXT, seed=7)

    async def speak() -> Speech:
        async with AsyncClient(server.grpc_url) as client:
            return await client.synthesize(TEXT, seed=7)

    np.testing.assert_array_equal(asyncio.run(speak()).samples, first.samples)


def test_what_the_server_says_about_itself(server: RunningServer) -> None:
    with Client(server.grpc_url) as client:
        assert client.health().ok
        description = client.describe()
        assert description.sample_rate_hz == 24000
        assert client.voices() == description.voices
        assert client.synthesize(TEXT, voice=description.voices[-1]).finish_reason == "stop"


@pytest.mark.parametrize(
    ("text", "options", "field"),
    [
        (" \n", {}, "TEXT"),
        (TEXT, {"voice": "nobody"}, "VOICE"),
        (TEXT, {"temperature": 99.0}, "TEMPERATURE"),
        (TEXT, {"top_p": float("nan")}, "TOP_P"),
        (TEXT, {"top_k": -1}, "TOP_K"),
        (TEXT, {"chunk_frames": 10**6}, "CHUNK_FRAMES"),
    ],
)
def test_bad_input_is_refused_before_any_audio(
    server: RunningServer, listen: Listen, text: str, options: dict[str, object], field: str
) -> None:
    heard = listen(server.grpc_url, text, **options)
    assert isinstance(heard.error, InvalidRequest)
    assert str(heard.error).startswith(field)
    assert heard.chunks == []
    assert "London" not in str(heard.error)


def test_an_unknown_voice_comes_with_the_voices(server: RunningServer) -> None:
    with Client(server.grpc_url) as client, pytest.raises(InvalidRequest) as caught:
        client.synthesize(TEXT, voice="nobody")
    with Client(server.grpc_url) as client:
        assert all(voice in str(caught.value) for voice in client.voices())


def test_a_length_bound_is_told(server: RunningServer) -> None:
    with Client(server.grpc_url) as client:
        speech = client.synthesize(TEXT, max_tokens=70, seed=1)
    assert speech.finish_reason == "length"
    assert len(speech.samples) == 10 * 2048


def test_leaving_early_ends_the_request_and_the_next_stream_is_its_own(server: RunningServer, listen: Listen) -> None:
    ended_before, cancelled_before = settled(finished, server), settled(cancels, server)
    heard = listen(server.grpc_url, LONG, take=2, chunk_frames=1)
    assert heard.finish_reason == "cancelled"
    assert listen(server.grpc_url, TEXT).finish_reason == "stop"
    wait_for(finished, server, ended_before + 2)
    wait_for(cancels, server, cancelled_before + 1)
    wait_for(active_streams, server, 0)


def test_cancel_one_and_start_another_on_the_same_connection(server: RunningServer) -> None:
    with Client(server.grpc_url) as client:
        alone = client.synthesize(TEXT, seed=3).samples
        with client.stream(LONG, chunk_frames=1) as speech:
            next(speech)
            next(speech)
        np.testing.assert_array_equal(client.synthesize(TEXT, seed=3).samples, alone)
        assert list(speech) == []


def test_cancels_at_any_moment_leave_nothing_running(server: RunningServer) -> None:
    """Also before the language model has heard of the stream, when a STOP finds nothing to stop."""
    ended_before, dice = settled(finished, server), random.Random(1)
    with Client(server.grpc_url, timeouts=Timeouts(close_s=30)) as client:

        def talk(delay_s: float) -> None:
            with client.stream(LONG) as speech:
                threading.Timer(delay_s, speech.cancel).start()
                for _ in speech:
                    pass

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(talk, [0.0, 0.001, 0.002] + [dice.uniform(0, 0.5) for _ in range(29)]))
        wait_for(finished, server, ended_before + 32)
        wait_for(active_streams, server, 0)
        assert client.synthesize(TEXT).finish_reason == "stop"


def test_eight_at_once_and_one_fails(server: RunningServer) -> None:
    with Client(server.grpc_url) as client, ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(client.synthesize, TEXT, voice="nobody" if number == 3 else None) for number in range(8)]
        with pytest.raises(InvalidRequest):
            jobs[3].result()
        for number in {*range(8)} - {3}:
            assert jobs[number].result().finish_reason == "stop"


def test_equal_request_ids_do_not_mix_streams(server: RunningServer) -> None:
    """Two texts of very different length under one id: each caller gets its own."""
    with Client(server.grpc_url) as client, ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(client.synthesize, TEXT if number % 2 else "Yes.", request_id="same") for number in range(8)]
        lengths = [len(job.result().samples) for job in jobs]
    assert max(lengths[0::2]) < min(lengths[1::2])


def test_the_command_line(server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.wav"
    assert main(["say", TEXT, "--url", server.grpc_url, "--out", str(out), "--seed", "1"]) == 0
    with wave.open(str(out)) as file:
        assert file.getframerate() == 24000
        assert file.getnframes() % 2048 == 0
    assert "time to first audio" in capsys.readouterr().out
    assert main(["health", "--speak", "--url", server.grpc_url]) == 0
    assert main(["bench-lite", "--url", server.grpc_url, "-n", "4", "-c", "2"]) == 0
    assert "4 complete, none failed" in capsys.readouterr().out


def test_the_plain_example(server: RunningServer, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(EXAMPLE), TEXT, server.grpc_url]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1].endswith(b"stop")
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getnframes() % 2048 == 0


def test_an_interrupted_plain_example_ends_its_stream(server: RunningServer, tmp_path: Path) -> None:
    ended_before = settled(finished, server)
    process = subprocess.Popen([sys.executable, "-u", str(EXAMPLE), LONG, server.grpc_url], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.splitlines()[-1].endswith(b"cancelled")
    wait_for(finished, server, ended_before + 1)


def test_a_full_server_is_overloaded_and_a_retry_gets_through(start_server: StartServer) -> None:
    server = start_server(environment={"ORPHEUS_LM_MAX_STREAMS": "1"})
    with Client(server.grpc_url) as client:
        with client.stream(LONG, chunk_frames=1) as speech:
            next(speech)
            with pytest.raises(Overloaded) as caught:
                client.synthesize(TEXT)
            assert caught.value.retryable
            threading.Timer(0.3, speech.cancel).start()
            assert client.synthesize(TEXT, retries=20).finish_reason == "stop"
        assert client.synthesize(TEXT).finish_reason == "stop"


def broken_by(server: RunningServer, harm: Callable[[], None]) -> OrpheusError:
    """What a listener is told whose server comes to harm after the first chunk."""
    with (
        Client(server.grpc_url, timeouts=Timeouts(between_chunks_s=20, close_s=1)) as client,
        client.stream(LONG, chunk_frames=1) as speech,
    ):
        next(speech)
        harm()
        with pytest.raises(OrpheusError) as caught:
            for _ in speech:
                pass
    return caught.value


def test_a_killed_server_breaks_the_stream_and_is_unavailable_then(start_server: StartServer) -> None:
    server = start_server()
    assert isinstance(broken_by(server, lambda: os.kill(server.pid, signal.SIGKILL)), StreamBroken)
    with Client(server.grpc_url) as client:
        with pytest.raises(ServerUnavailable):
            client.synthesize(TEXT)
        with pytest.raises(ServerUnavailable):
            client.health()


def test_a_killed_model_process_breaks_the_stream(start_server: StartServer) -> None:
    server = start_server()

    def kill_models() -> None:
        for pid in server.stub_pids():
            os.kill(pid, signal.SIGKILL)

    # Triton 2.51 reports a dead model only where a request is inside it: between two windows the client's own clock ends the wait.
    assert isinstance(broken_by(server, kill_models), (StreamBroken, ChunkTimeout))
    assert main(["health", "--speak", "--url", server.grpc_url]) != 0
