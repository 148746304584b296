"""Both clients against scripted servers: the same scenarios, the same outcome."""

from __future__ import annotations

import socket
from collections.abc import Callable

import grpc
import pytest
from orpheus_client import (
    ChunkTimeout,
    EmptySpeech,
    FirstAudioTimeout,
    InvalidRequest,
    OrpheusError,
    Overloaded,
    ServerUnavailable,
    StreamBroken,
    Timeouts,
    TotalTimeout,
)
from support.listen import Listen
from support.scripted_triton import Abort, Bare, Fail, Say, ScriptedTriton, Turns, Wait

Scripted = Callable[..., ScriptedTriton]
LONG = (Say(), Say(), Say(), Wait(30), Say(finish="stop"))
BUSY = Fail("in ensemble 'orpheus_tts', [UNAVAILABLE] all 4 streams of this server are in use")


def test_a_whole_utterance(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": [Say(1024), Say(2048), Say(0, finish="stop")]})
    heard = listen(server.url, "hello", voice="ada", top_k=5, temperature=0.5, client={"headers": {"Authorization": "Bearer x"}})
    assert heard.error is None
    assert [(chunk.index, len(chunk.samples)) for chunk in heard.chunks] == [(0, 1024), (1, 2048)]
    assert heard.finish_reason == "stop"
    assert heard.timings.chunk_samples == (1024, 2048)
    assert server.wait_for_ends(1) == [(heard.request_id, "complete")]
    (request,) = server.requests
    assert request.inputs == {"TEXT": "hello", "VOICE": "ada", "TOP_K": 5, "TEMPERATURE": 0.5}
    assert (request.model, request.request_id) == ("orpheus_tts", heard.request_id)
    assert request.headers["authorization"] == "Bearer x"
    assert server.stops == []


def test_request_ids_differ_unless_one_is_given(scripted: Scripted, listen: Listen) -> None:
    server = scripted()
    assert listen(server.url, "a").request_id != listen(server.url, "a").request_id
    assert listen(server.url, "a", request_id="mine").request_id == "mine"
    assert server.requests[-1].request_id == "mine"


@pytest.mark.parametrize(
    "script",
    [
        [Say(), Say(index=2, finish="stop")],
        [Say()],
        [Say(), Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")],
        [Say(), Fail("in ensemble 'orpheus_tts', [INTERNAL] the codec failed")],
        [Say(), Say(finish="cancelled")],
        [Say(), Bare()],
    ],
    ids=["gap", "no final", "connection", "codec", "somebody's cancel", "no outputs"],
)
def test_a_broken_stream_never_looks_like_a_clean_end(scripted: Scripted, listen: Listen, script: list[object]) -> None:
    server = scripted({"hello": script})
    heard = listen(server.url, "hello", client={"retries": 3})
    assert isinstance(heard.error, StreamBroken)
    assert heard.error.request_id == heard.request_id
    assert heard.finish_reason == ""
    assert len(heard.chunks) == 1
    assert len(server.requests) == 1 + len(server.stops)  # audio was heard, so there was no second attempt


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([Fail("in ensemble 'orpheus_tts', [INVALID_ARGUMENT] VOICE 'x' is unknown; voices are: ada, bob")], InvalidRequest),
        ([BUSY], Overloaded),
        ([Abort(grpc.StatusCode.UNAVAILABLE, "shutting down")], ServerUnavailable),
        ([Say(0, finish="stop")], EmptySpeech),
        ([Say(2048, level=3), Say(2048, level=-3, finish="stop")], EmptySpeech),
    ],
    ids=["invalid", "busy", "unavailable", "empty", "silent"],
)
def test_an_error_has_its_kind(scripted: Scripted, listen: Listen, script: list[object], kind: type[OrpheusError]) -> None:
    server = scripted({"hello": script})
    heard = listen(server.url, "hello")
    assert type(heard.error) is kind
    assert heard.error is not None
    assert heard.error.request_id == heard.request_id
    assert server.stops == []


def test_nobody_listens_there(listen: Listen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    heard = listen(f"127.0.0.1:{port}", "hello")
    assert isinstance(heard.error, ServerUnavailable)


def test_a_server_that_never_speaks_is_given_up_after_the_connect_limit(listen: Listen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        heard = listen(f"127.0.0.1:{silent.getsockname()[1]}", "hello", client={"timeouts": Timeouts(connect_s=0.3, first_audio_s=30)})
    assert isinstance(heard.error, ServerUnavailable)


def test_leaving_early_stops_drains_and_closes(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": LONG})
    heard = listen(server.url, "hello", take=2)
    assert heard.error is None
    assert heard.finish_reason == "cancelled"
    assert server.stops == [heard.request_id]
    assert server.requests[-1].model == "orpheus_lm"
    assert server.wait_for_ends(1) == [(heard.request_id, "complete")]


def test_stop_is_repeated_until_the_stream_is_known(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": LONG}, stop_misses=2)
    heard = listen(server.url, "hello", take=1)
    assert server.stops == [heard.request_id] * 3
    assert server.wait_for_ends(1) == [(heard.request_id, "complete")]


def test_a_server_that_does_not_stop_is_cut_off(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": LONG}, obeys=False)
    heard = listen(server.url, "hello", take=1, client={"timeouts": Timeouts(close_s=0.3)})
    assert heard.finish_reason == "cancelled"
    assert heard.took_s >= 0.3
    assert server.wait_for_ends(1) == [(heard.request_id, "cut")]


@pytest.mark.parametrize(
    ("script", "limits", "kind", "n_chunks"),
    [
        ([Wait(30), Say(finish="stop")], Timeouts(first_audio_s=0.2), FirstAudioTimeout, 0),
        ([Say(0), Wait(30), Say(finish="stop")], Timeouts(first_audio_s=0.2), FirstAudioTimeout, 0),
        ([Say(), Wait(30), Say(finish="stop")], Timeouts(between_chunks_s=0.2), ChunkTimeout, 1),
        ([Say(), Wait(0.1), Say(), Wait(30), Say(finish="stop")], Timeouts(total_s=0.3), TotalTimeout, 2),
    ],
    ids=["first audio", "empty first chunk", "between chunks", "total"],
)
def test_a_deadline_ends_the_stream_on_the_server_too(
    scripted: Scripted, listen: Listen, script: list[object], limits: Timeouts, kind: type[OrpheusError], n_chunks: int
) -> None:
    server = scripted({"hello": script})
    heard = listen(server.url, "hello", timeouts=limits)
    assert type(heard.error) is kind
    assert len(heard.chunks) == n_chunks
    assert server.stops == [heard.request_id]
    assert server.wait_for_ends(1) == [(heard.request_id, "complete")]


def test_an_error_that_does_not_end_the_request_is_followed_by_stop(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": [Say(), Fail("[INTERNAL] the codec failed", final=False), Wait(30), Say(finish="stop")]})
    heard = listen(server.url, "hello")
    assert isinstance(heard.error, StreamBroken)
    assert server.stops == [heard.request_id]
    assert server.wait_for_ends(1) == [(heard.request_id, "complete")]


def test_retries_before_the_first_audio(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": Turns([[BUSY], [BUSY], [Say(finish="stop")]])})
    heard = listen(server.url, "hello", client={"retries": 2})
    assert heard.error is None
    assert len(heard.chunks) == 1
    assert len({request.request_id for request in server.requests}) == 3
    assert heard.timings.chunk_arrivals_s[0] > 0.1  # both pauses count


def test_retries_are_off_by_default_and_bounded(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": [BUSY]})
    assert isinstance(listen(server.url, "hello").error, Overloaded)
    assert len(server.requests) == 1
    assert isinstance(listen(server.url, "hello", retries=1).error, Overloaded)
    assert len(server.requests) == 3


def test_a_late_chunk_is_an_underrun(scripted: Scripted, listen: Listen) -> None:
    server = scripted({"hello": [Say(1024), Wait(0.3), Say(48000, finish="stop")]})
    timings = listen(server.url, "hello").timings
    assert timings.real_time_factor is not None
    assert timings.real_time_factor < 1
    (underrun,) = timings.underruns()
    assert underrun.at_s == pytest.approx(1024 / 24000)
    assert underrun.duration_s > 0.1
