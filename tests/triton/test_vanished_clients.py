"""Callers that leave in every way there is. What they asked for ends soon, what it held comes back, the server goes on and exits as ever.

Our client sends STOP (test_client.py). Here nobody does: Triton's ensemble drops the codec's part of such a call and tells the language
model nothing, so the stream ends when its acknowledgements stay away (dead_stream_ms).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from embedded.running import RunningServer
from embedded.vitals import processes_of, vitals, wait_until_idle
from orpheus_client import Client
from support.doomed_clients import SAID
from support.proxy import Proxy
from support.raw import Response, raw_stream, text
from support.server import ROOT, StartServer, server_python

DEAD_STREAM_S = 1.0
NOTICED_WITHIN_S = 8.0
"""Patience, the codec's last batches, and the metrics' own delay, on a machine that may be busy."""
KEEPALIVE_S = 20.0  # embedded/command.py: KEEPALIVE
LONG = "The old clock on the wall stopped years ago, but nobody has taken it down. " * 260


@pytest.fixture(scope="module")
def abandoned(start_server: StartServer) -> RunningServer:
    """A server of their own: what Triton keeps of such calls must not disturb other tests."""
    return start_server(environment={"ORPHEUS_LM_DEAD_STREAM_MS": f"{1000 * DEAD_STREAM_S:.0f}"})


def kill_clients(server: RunningServer, count: int, seed: int) -> None:
    command = [sys.executable, "-m", "support.doomed_clients", server.grpc_url, f"{count}", f"{seed}"]
    subprocess.run(command, cwd=ROOT / "tests", check=True, timeout=180)


def sixteen_at_once(server: RunningServer) -> list[str]:
    with Client(server.grpc_url, retries=3) as client, ThreadPoolExecutor(16) as threads:
        return [speech.finish_reason for speech in threads.map(client.synthesize, ["All is well."] * 16)]


def test_two_hundred_killed_clients(abandoned: RunningServer) -> None:
    """SIGKILL at a random moment of the stream. The first forty fill caches and pools, which then must not grow any more."""
    kill_clients(abandoned, 40, seed=1)
    wait_until_idle(abandoned)
    before = vitals(abandoned)
    kill_clients(abandoned, 160, seed=2)
    assert wait_until_idle(abandoned) < NOTICED_WITHIN_S
    after = vitals(abandoned)
    assert after.shared == before.shared
    assert after.sockets <= before.sockets + 2
    # 160 calls that Triton 2.51 never takes down are something (docs/log.md); whole utterances kept would be 0.3 MB each.
    assert after.memory_mb < before.memory_mb + 40
    assert sixteen_at_once(abandoned) == ["stop"] * 16


@pytest.mark.parametrize("chunks_first", [0, 1, 4])
def test_a_raw_cancel(abandoned: RunningServer, chunks_first: int) -> None:
    with raw_stream(abandoned.grpc_url) as stream:
        stream.send("orpheus_tts", {"TEXT": text(SAID), "CHUNK_FRAMES": np.array([1], np.int32)})
        for _ in range(chunks_first):
            assert isinstance(stream.answers.get(timeout=30), Response)
        stream.client.stop_stream(cancel_requests=True)
    assert wait_until_idle(abandoned) < NOTICED_WITHIN_S


def test_a_raw_cancel_at_the_last_chunk(abandoned: RunningServer) -> None:
    with raw_stream(abandoned.grpc_url) as stream:
        stream.send("orpheus_tts", {"TEXT": text("Yes.")})
        while True:
            answer = stream.answers.get(timeout=30)
            assert isinstance(answer, Response)
            if answer.outputs and answer.text("FINISH_REASON"):
                break
        stream.client.stop_stream(cancel_requests=True)
    assert wait_until_idle(abandoned) < NOTICED_WITHIN_S


def test_cancelled_while_others_hold_every_slot(start_server: StartServer) -> None:
    """A refused call and a cancelled one do not hold the slot that becomes free."""
    server = start_server(environment={"ORPHEUS_LM_MAX_STREAMS": "1", "ORPHEUS_LM_DEAD_STREAM_MS": "1000"})
    with Client(server.grpc_url) as client, client.stream(SAID, chunk_frames=1) as speech:
        next(speech)
        for _ in range(5):
            with raw_stream(server.grpc_url) as stream:
                stream.send("orpheus_tts", {"TEXT": text(SAID)})
                stream.client.stop_stream(cancel_requests=True)
        for _ in speech:
            pass
        assert speech.finish_reason == "stop"
    wait_until_idle(server)
    with Client(server.grpc_url) as client:
        assert client.synthesize("Yes.", retries=3).finish_reason == "stop"


def test_a_network_that_stops_without_a_word(abandoned: RunningServer) -> None:
    """No byte, no end: pings find out. A text of twenty thousand characters would go on for long."""
    with Proxy(abandoned.grpc_url) as proxy, raw_stream(proxy.url) as stream:
        stream.send("orpheus_tts", {"TEXT": text(LONG)})
        assert isinstance(stream.answers.get(timeout=30), Response)
        proxy.stall()
        try:
            assert wait_until_idle(abandoned, timeout_s=60) < KEEPALIVE_S + 2 * NOTICED_WITHIN_S
        finally:
            proxy.cut()  # or the client would wait for the end of its call
    with Client(abandoned.grpc_url) as client:
        assert client.synthesize("Yes.").finish_reason == "stop"


def test_a_reader_that_takes_a_chunk_a_second(abandoned: RunningServer) -> None:
    """Slow, not gone: it gets everything, and nobody else waits for it."""
    with Client(abandoned.grpc_url) as client, client.stream(SAID) as slow:
        heard = [next(slow)]
        began = time.monotonic()
        assert client.synthesize("Yes.").finish_reason == "stop"
        assert time.monotonic() - began < 5
        for chunk in slow:
            heard.append(chunk)
            time.sleep(1 if len(heard) < 8 else 0)
        assert slow.finish_reason == "stop"
        assert [chunk.index for chunk in heard] == list(range(len(heard)))
        assert sum(len(chunk.samples) for chunk in heard) % 2048 == 0


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_server(signal_number: signal.Signals) -> None:
    """Triton 2.51 waits its exit timeout for calls that were cancelled raw, and then leaves the stubs behind."""
    before = shared_memory()
    server = RunningServer(python=server_python(), exit_timeout_s=2)
    with server:
        kill_clients(server, 16, seed=3)
        pids = processes_of(server.pid)
        assert len(pids) >= 5  # server, two stubs, engine, guard
        began = time.monotonic()
        os.kill(server.pid, signal_number)
        # The tables alone stay: the next server removes them.
        while left := [f"{pid}" for pid in pids if alive(pid)] + sorted(shared_memory() - before):
            assert time.monotonic() < began + 2 + 15, left
            time.sleep(0.2)


def alive(pid: int) -> bool:
    """Not gone, and no zombie: not everybody collects the children that fall to him."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith("orpheus-ack-")}
