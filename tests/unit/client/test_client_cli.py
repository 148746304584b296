"""The command `orpheus` against scripted servers."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from orpheus_client.cli.main import main
from support.scripted_triton import DESCRIPTION, Abort, Fail, Say, ScriptedTriton, Step, Wait

Scripted = Callable[..., ScriptedTriton]
SOURCES = Path(__file__).parents[3] / "client" / "src"
LONG = (Say(), Say(), Say(), Wait(30), Say(finish="stop"))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORPHEUS_URL", raising=False)
    monkeypatch.delenv("ORPHEUS_TOKEN", raising=False)


def test_say_writes_a_wav_and_tells_how_it_went(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted()
    assert main(["say", "Good", "morning.", "--url", server.url, "--voice", "bob", "--top-k", "3"]) == 0
    assert server.requests[0].inputs == {"TEXT": "Good morning.", "VOICE": "bob", "TOP_K": 3}
    with wave.open("speech.wav") as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnframes()) == (24000, 2, 3 * 2048)
    out, err = capsys.readouterr()
    for word in ("speech.wav", "0.26 s of audio", "3 chunks", "complete", "time to first audio", "real-time factor", "underruns"):
        assert word in out
    assert "chunks" in err


def test_say_to_standard_output_is_one_streamed_wav(scripted: Scripted, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    server = scripted()
    assert main(["say", "hello", "--url", server.url, "--out", "-"]) == 0
    out, err = capsysbinary.readouterr()
    assert out[:4] == b"RIFF"
    assert out.count(b"RIFF") == 1
    assert struct.unpack_from("<I", out, 4)[0] == struct.unpack_from("<I", out, 40)[0] == 0xFFFFFFFF
    assert len(out) == 44 + 3 * 2048 * 2
    assert b"real-time factor" in err


@pytest.mark.parametrize(("flags", "width"), [(["--raw"], 2), (["--raw", "--float"], 4)])
def test_raw_samples(scripted: Scripted, capsysbinary: pytest.CaptureFixture[bytes], flags: list[str], width: int) -> None:
    server = scripted()
    assert main(["say", "hello", "--url", server.url, "--out", "-", "--quiet", *flags]) == 0
    out, err = capsysbinary.readouterr()
    assert out == struct.pack("<h" if width == 2 else "<f", 8000 if width == 2 else 8000 / 2**15) * 3 * 2048
    assert err == b""


def test_the_address_and_the_token_may_come_from_the_environment(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = scripted()
    monkeypatch.setenv("ORPHEUS_URL", server.url)
    monkeypatch.setenv("ORPHEUS_TOKEN", "secret")
    assert main(["voices"]) == 0
    assert capsys.readouterr().out.split() == ["ada", "bob"]
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_json_of_each_command(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted()
    assert main(["say", "hello", "--url", server.url, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["out"], said["finish_reason"], said["chunk_samples"]) == ("speech.wav", "stop", [2048] * 3)
    assert main(["voices", "--url", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["defaults"] == DESCRIPTION["defaults"]
    assert main(["health", "--url", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_health_of_a_server_that_is_not_ready(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted(ready=False)
    assert main(["health", "--url", server.url]) == 4
    assert "orpheus_tts      no" in capsys.readouterr().out


def test_health_that_speaks_notices_more(scripted: Scripted) -> None:
    server = scripted({"Yes.": [Fail("in ensemble 'orpheus_tts', Stub process 'snac_decoder_0_0' is not healthy.")]})
    assert main(["health", "--url", server.url]) == 0
    assert main(["health", "--speak", "--url", server.url]) == 4


def test_draining_waits_for_the_last_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "metrics"
    page.write_text(
        "# HELP orpheus_lm_active_streams Streams being served\norpheus_lm_active_streams 2\norpheus_lm_active_streams_other 9\n"
    )
    assert main(["drain", "--metrics-url", page.as_uri(), "--timeout-s", "0.6"]) == 6
    assert "2 streams are still being served" in capsys.readouterr().err
    threading.Timer(1.5, page.write_text, ["orpheus_lm_active_streams 0\n"]).start()
    began = time.monotonic()
    assert main(["drain", "--metrics-url", page.as_uri()]) == 0
    assert time.monotonic() - began > 1.4
    assert main(["drain", "--metrics-url", (tmp_path / "nothing").as_uri()]) == 1


def test_a_full_server_is_healthy(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted({"Yes.": [Fail("[UNAVAILABLE] all 32 streams are in use; try again later")]})
    assert main(["health", "--speak", "--url", server.url]) == 0
    assert "speaks           busy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "flags", "code", "kind"),
    [
        ([Fail("[INVALID_ARGUMENT] TEXT is empty")], [], 3, "InvalidRequest"),
        ([Abort(grpc.StatusCode.UNAUTHENTICATED, "no token")], [], 3, "AccessDenied"),
        ([Abort(grpc.StatusCode.UNAVAILABLE, "away")], [], 4, "ServerUnavailable"),
        ([Fail("[UNAVAILABLE] busy")], [], 5, "Overloaded"),
        ([Wait(30), Say(finish="stop")], ["--first-audio-timeout", "0.1"], 6, "FirstAudioTimeout"),
        ([Say()], [], 7, "StreamBroken"),
        ([Say(level=0, finish="stop")], [], 8, "EmptySpeech"),
        ([Fail("[INTERNAL] the server failed")], [], 1, "ServerError"),
    ],
)
def test_exit_codes(
    scripted: Scripted, capsys: pytest.CaptureFixture[str], script: list[Step], flags: list[str], code: int, kind: str
) -> None:
    server = scripted({"hello": script})
    assert main(["say", "hello", "--url", server.url, "--quiet", *flags]) == code
    assert kind in capsys.readouterr().err
    assert Path("speech.wav").exists() == (kind == "StreamBroken")  # a refused request leaves no file
    assert main(["say", "hello", "--url", server.url, "--quiet", "--json", *flags]) == code
    assert json.loads(capsys.readouterr().err)["error"]["type"] == kind


def test_a_broken_stream_leaves_a_playable_file(scripted: Scripted) -> None:
    server = scripted({"hello": [Say(), Say()]})
    assert main(["say", "hello", "--url", server.url]) == 7
    with wave.open("speech.wav") as file:
        assert file.getnframes() == 2 * 2048


@pytest.mark.parametrize(
    "arguments", [[], ["sing"], ["say"], ["say", "x", "--retries", "-1"], ["bench-lite", "-c", "0"], ["say", "x", "--header", "a"]]
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "--help" in capsys.readouterr().err


def test_an_unwritable_file(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted({"hello": LONG})
    assert main(["say", "hello", "--url", server.url, "--out", "no/such/folder.wav"]) == 1
    assert "no/such/folder.wav" in capsys.readouterr().err
    assert len(server.stops) == 1


def test_bench_lite_reports_and_counts_failures(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    server = scripted({"bad": [Say(), Fail("[INTERNAL] no")], "much too long for a tenth of a second": [Say(finish="stop")]})
    texts = ["--text", "hi", "--text", "bad", "--text", "much too long for a tenth of a second"]
    bench = ["bench-lite", "--url", server.url, "-n", "6", "-c", "2"]
    assert main([*bench, *texts, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["complete"] == 2
    assert report["failures"] == {"StreamBroken": 2, "TooShort": 2}
    assert len(report["runs"]) == 6
    assert sum(request.model == "orpheus_tts" for request in server.requests) == 6 + 2  # with the warm-up
    assert main([*bench, "--text", "hi"]) == 0
    assert "time to first audio, ms" in capsys.readouterr().out


def test_bench_lite_gives_up_without_a_server() -> None:
    assert main(["bench-lite", "--url", "127.0.0.1:1"]) == 4


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Runs the command as a process of its own."""
    running: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "orpheus_client", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_stream_and_keeps_what_came(scripted: Scripted, start: Start, number: signal.Signals, code: int) -> None:
    server = scripted({"hello": LONG})
    process = start("say", "hello", "--url", server.url)
    wait_for(lambda: Path("speech.wav").exists() and Path("speech.wav").stat().st_size == 44 + 3 * 2048 * 2)
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert server.stops == [server.requests[0].request_id]
    assert [how for _, how in server.wait_for_ends(1)] == ["complete"]
    with wave.open("speech.wav") as file:
        assert file.getnframes() == 3 * 2048


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_all_streams_of_bench_lite(scripted: Scripted, start: Start, number: signal.Signals, code: int) -> None:
    server = scripted({"hello": LONG})
    process = start("bench-lite", "--url", server.url, "--text", "hello", "-c", "3")
    wait_for(lambda: sum(request.model == "orpheus_tts" for request in server.requests) == 3)
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert [how for _, how in server.wait_for_ends(3)] == ["complete"] * 3


def test_a_reader_that_goes_away(scripted: Scripted, start: Start) -> None:
    server = scripted({"hello": [Say(), Wait(0.3), *(Say() for _ in range(50)), Wait(30), Say(finish="stop")]})
    process = start("say", "hello", "--url", server.url, "--out", "-", "--quiet")
    assert process.stdout is not None
    assert process.stdout.read(4) == b"RIFF"
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert server.stops == [server.requests[0].request_id]


def test_text_from_standard_input(scripted: Scripted, start: Start) -> None:
    server = scripted()
    process = start("say", "-", "--url", server.url)
    _, errors = process.communicate("Grüße, Ödön.\n".encode(), timeout=20)
    assert process.returncode == 0, errors
    assert server.requests[0].inputs["TEXT"] == "Grüße, Ödön.\n"
    process = start("say", "-", "--url", server.url)
    _, errors = process.communicate(b"secret \xff", timeout=20)
    assert process.returncode == 3
    assert b"UTF-8" in errors
    assert b"secret" not in errors
