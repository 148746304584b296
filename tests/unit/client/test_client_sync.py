"""What is special to threads."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from orpheus_client import Client, Overloaded, StreamBroken, Timeouts
from support.scripted_triton import DESCRIPTION, Abort, Fail, Say, ScriptedTriton, Wait

Scripted = Callable[..., ScriptedTriton]
LONG = (Say(), Say(), Say(), Wait(30), Say(finish="stop"))


def voice_of(number: int) -> list[Say | Wait]:
    """A script whose samples tell the utterances apart."""
    return [Say(100 + number, 1000 + number), Wait(0.02), Say(200, 1000 + number), Wait(0.02), Say(300, 1000 + number, finish="stop")]


def test_eight_at_once_and_one_fails(scripted: Scripted) -> None:
    scripts: dict[str, object] = {str(number): voice_of(number) for number in range(8)}
    scripts["3"] = [Say(), Fail("[INTERNAL] the codec failed")]
    server = scripted(scripts)
    with Client(server.url) as client, ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(client.synthesize, str(number)) for number in range(8)]
        with pytest.raises(StreamBroken):
            jobs[3].result()
        for number in {*range(8)} - {3}:
            samples = jobs[number].result().samples
            np.testing.assert_array_equal(samples, np.full(600 + number, 1000 + number, np.int16))
    assert [how for _, how in server.wait_for_ends(8)] == ["complete"] * 8


def test_many_threads_many_utterances_on_one_client(scripted: Scripted) -> None:
    server = scripted({str(number): voice_of(number) for number in range(60)})
    with Client(server.url) as client, ThreadPoolExecutor(12) as threads:
        spoken = list(threads.map(client.synthesize, map(str, range(60))))
    for number, speech in enumerate(spoken):
        assert set(speech.samples.tolist()) == {1000 + number}
        assert len(speech.samples) == 600 + number
    assert len({speech.request_id for speech in spoken}) == 60


def test_cancel_one_then_start_another_on_the_same_connection(scripted: Scripted) -> None:
    server = scripted({"long": LONG})
    with Client(server.url) as client:
        with client.stream("long") as speech:
            first = [next(speech), next(speech)]
        second = client.synthesize("another")
    assert [chunk.index for chunk in first] == [0, 1]
    assert list(speech) == []
    assert len(second.samples) == 3 * 2048


def test_cancel_from_another_thread_ends_the_loop_at_once(scripted: Scripted) -> None:
    server = scripted({"long": LONG})
    with Client(server.url) as client, client.stream("long") as speech:
        heard = [next(speech) for _ in range(3)]
        threading.Timer(0.1, speech.cancel).start()
        heard.extend(speech)
        assert len(heard) == 3
        assert speech.finish_reason == "cancelled"
    assert server.stops == [speech.request_id]


def test_a_slow_listener_does_not_spoil_the_timings(scripted: Scripted) -> None:
    server = scripted({"long": [Say(), Say(), Say(finish="stop")]})
    with Client(server.url) as client, client.stream("long") as speech:
        began_s = time.monotonic()
        for _ in speech:
            time.sleep(0.2)
        listened_s = time.monotonic() - began_s
    assert speech.timings.total_s < listened_s / 2


def test_closing_the_client_cancels_what_runs(scripted: Scripted) -> None:
    server = scripted({"long": LONG})
    client = Client(server.url)
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(client.synthesize, "long") for _ in range(4)]
        while len(server.requests) < 4:
            time.sleep(0.01)
        client.close()
        for job in jobs:
            with pytest.raises(StreamBroken, match="cancelled"):
                job.result()
    assert [how for _, how in server.wait_for_ends(4)] == ["complete"] * 4


def test_an_error_in_the_callers_block_cancels_and_goes_on(scripted: Scripted) -> None:
    server = scripted({"long": LONG})
    with Client(server.url) as client:
        stream = client.stream("long")

        def listen() -> None:
            with stream as speech:
                raise ValueError(next(speech).index)

        with pytest.raises(ValueError, match="0"):
            listen()
        assert server.stops == [stream.request_id]
        assert client.synthesize("another").finish_reason == "stop"


def test_misuse_is_told(scripted: Scripted) -> None:
    server = scripted()
    with Client(server.url) as client:
        stream = client.stream("hello")
        with pytest.raises(RuntimeError, match="with block"):
            next(stream)
        with stream:
            pass
        with pytest.raises(RuntimeError, match="once"):
            stream.__enter__()
        with pytest.raises(TypeError, match="speed"):
            client.stream("hello", speed=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_an_error_is_told_again(scripted: Scripted) -> None:
    server = scripted({"busy": [Fail("[UNAVAILABLE] busy")]})
    with Client(server.url) as client, client.stream("busy") as speech:
        for _ in range(2):
            with pytest.raises(Overloaded):
                next(speech)


def test_synthesize_saves(scripted: Scripted, tmp_path: Path) -> None:
    server = scripted({"hello": [Say(10, 16384, finish="length")]})
    with Client(server.url) as client:
        speech = client.synthesize("hello")
    assert speech.finish_reason == "length"
    assert speech.float().tolist() == [0.5] * 10
    speech.save_wav(tmp_path / "a.wav")
    assert (tmp_path / "a.wav").stat().st_size == 44 + 20


def test_description_voices_and_health(scripted: Scripted) -> None:
    server = scripted()
    with Client(server.url) as client:
        description = client.describe()
        assert description.voices == client.voices() == ("ada", "bob")
        assert description.limits == DESCRIPTION["limits"]
        health = client.health()
        assert health.ok
        assert health.models == {"orpheus_tts": True, "orpheus_lm": True}
        server.ready = False
        assert client.health().live
        assert not client.health().ok


def test_a_client_recovers_after_its_server_was_away(scripted: Scripted) -> None:
    import grpc

    server = scripted({"hello": [Abort(grpc.StatusCode.UNAVAILABLE, "away")]})
    with Client(server.url, timeouts=Timeouts(connect_s=0.2)) as client:
        with pytest.raises(Exception, match="away"):
            client.synthesize("hello")
        assert client.synthesize("another").finish_reason == "stop"


def _use(client: Client, result: multiprocessing.Queue[str]) -> None:
    try:
        client.synthesize("hello")
        result.put("spoke")
    except RuntimeError as error:
        result.put(str(error))


def test_a_forked_child_is_told_to_make_its_own(scripted: Scripted) -> None:
    context = multiprocessing.get_context("fork")
    with Client("127.0.0.1:1") as client:
        result = context.Queue()
        child = context.Process(target=_use, args=(client, result))
        child.start()
        assert "after a fork" in result.get(timeout=10)
        child.join(timeout=10)
