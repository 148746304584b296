"""The example with tritonclient alone, as a user runs it."""

from __future__ import annotations

import signal
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

from support.scripted_triton import Fail, Say, ScriptedTriton, Wait

Scripted = Callable[..., ScriptedTriton]
EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_tritonclient.py"


def start(folder: Path, text: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-u", str(EXAMPLE), text, url], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def n_samples(folder: Path) -> int:
    with wave.open(str(folder / "speech.wav")) as file:
        return file.getnframes()


def test_it_saves_what_is_spoken(scripted: Scripted, tmp_path: Path) -> None:
    server = scripted()
    out, _ = start(tmp_path, "hello", server.url).communicate(timeout=30)
    assert n_samples(tmp_path) == 3 * 2048
    assert out.splitlines()[-1].endswith(b"stop")


def test_an_interrupt_stops_it_on_the_server(scripted: Scripted, tmp_path: Path) -> None:
    server = scripted({"hello": [Say(), Say(), Wait(30), Say(finish="stop")]})
    process = start(tmp_path, "hello", server.url)
    assert process.stdout is not None
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert server.stops == [server.requests[0].request_id]
    assert n_samples(tmp_path) == 2 * 2048
    assert [how for _, how in server.wait_for_ends(1)] == ["complete"]


def test_an_error_is_raised(scripted: Scripted, tmp_path: Path) -> None:
    server = scripted({"hello": [Fail("[UNAVAILABLE] busy")]})
    process = start(tmp_path, "hello", server.url)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"busy" in errors
