"""Streams together: each gets its own audio, in order; the codec serves many in one batch; one too many is told so at once."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
import tritonclient.grpc as grpc
from embedded.running import RunningServer
from embedded.vitals import metric
from orpheus_client import Client
from support.raw import Response, ask, raw_stream, text
from support.scripted_engine import Script
from support.scripted_server import ScriptedServer, audio, start_scripted
from support.server import StartServer
from tritonclient.utils import InferenceServerException

STREAMS = 16


@pytest.fixture(scope="module")
def scripted(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> ScriptedServer:
    return start_scripted(start_server, tmp_path_factory.mktemp("scripted"), max_streams=str(STREAMS))


def codec_statistics(scripted: ScriptedServer) -> tuple[int, int]:
    """Windows served by the codec, and the batches that it took."""
    with grpc.InferenceServerClient(scripted.url) as client:
        statistics = cast(Any, client.get_inference_statistics("snac_decoder")).model_stats[0]
        return statistics.inference_count, statistics.execution_count


@pytest.mark.parametrize("request_id", ["", "the same for all"])
def test_sixteen_streams_each_get_their_own_audio(scripted: ScriptedServer, request_id: str) -> None:
    scripts = {seed: Script(frames=12 + seed, codes_seed=seed, tokens_per_s=250) for seed in range(STREAMS)}
    scripted.play(by_seed=scripts)
    before_all = codec_statistics(scripted)

    def speak(seed: int) -> list[Response]:
        return ask(scripted.url, "orpheus_tts", {"TEXT": text("Hello there, all of you."), "SEED": np.array([seed], np.int64)}, request_id)

    with ThreadPoolExecutor(STREAMS) as pool:
        heard = list(pool.map(speak, scripts))
    windows, batches = (after - before for after, before in zip(codec_statistics(scripted), before_all, strict=True))
    for seed, responses in enumerate(heard):
        assert [int(r.outputs["INDEX"][0]) for r in responses] == list(range(len(responses)))
        assert responses[-1].text("FINISH_REASON") == "stop"
        wanted = scripted.whole(scripts[seed])
        assert len(audio(responses)) == len(wanted)
        assert np.abs(audio(responses).astype(int) - wanted.astype(int)).max() <= 1
    assert windows == sum(map(len, heard))
    assert batches < 0.6 * windows, f"{windows} windows took {batches} batches"


def test_streams_of_one_connection_do_not_mix(scripted: ScriptedServer) -> None:
    scripts = {seed: Script(frames=6 + seed, codes_seed=seed) for seed in range(8)}
    scripted.play(by_seed=scripts)
    with raw_stream(scripted.url) as stream:
        for seed in scripts:
            stream.send("orpheus_tts", {"TEXT": text("Hello."), "SEED": np.array([seed], np.int64)}, request_id=str(seed))
        lengths: list[int] = []
        finals = 0
        while finals < len(scripts):
            answer = stream.answers.get(timeout=60)
            assert isinstance(answer, Response)
            lengths.append(len(answer.outputs["AUDIO"]))
            finals += answer.final
    assert sum(lengths) == sum(2048 * script.frames for script in scripts.values() if script.frames)


def test_four_times_too_many(scripted: ScriptedServer) -> None:
    """The rest is refused at once with a code that says try again; then all is as before."""
    scripted.play(Script(frames=20, tokens_per_s=100))

    def speak(_: int) -> tuple[str, float]:
        began = time.monotonic()
        try:
            responses = scripted.speak()
        except InferenceServerException as error:
            return str(error), time.monotonic() - began
        return responses[-1].text("FINISH_REASON"), time.monotonic() - began

    with ThreadPoolExecutor(4 * STREAMS) as pool:
        answers = list(pool.map(speak, range(4 * STREAMS)))
    served = [took for outcome, took in answers if outcome == "stop"]
    refused = [took for outcome, took in answers if "[UNAVAILABLE] all 16 streams of this server are in use" in outcome]
    assert len(served) + len(refused) == len(answers)
    assert len(served) >= STREAMS
    assert len(refused) >= STREAMS
    assert np.median(refused) < np.median(served)
    scripted.play(Script(frames=4))
    assert len(audio(scripted.speak())) == 4 * 2048


def test_thirty_two_starts_at_once(server: RunningServer) -> None:
    """Within some milliseconds, as many as there are slots: all are served."""
    with Client(server.grpc_url, retries=2) as client, ThreadPoolExecutor(32) as threads:
        spoken = list(threads.map(client.synthesize, ["All is well."] * 32))
    assert [speech.finish_reason for speech in spoken] == ["stop"] * 32


def test_short_texts_do_not_wait_for_a_long_one(server: RunningServer) -> None:
    """Continuous batching: whoever comes later and says less is done first."""
    with Client(server.grpc_url) as client, client.stream("The old clock on the wall stopped years ago. " * 40) as long:
        next(long)
        with ThreadPoolExecutor(4) as threads:
            spoken = list(threads.map(client.synthesize, ["All is well."] * 8))
        assert [speech.finish_reason for speech in spoken] == ["stop"] * 8
        assert metric(server, "orpheus_lm_active_streams") >= 1, "the long one is still being spoken"


def test_the_first_request_after_the_start_is_as_fast_as_the_next(start_server: StartServer) -> None:
    """The models are warm when the server is ready. Side by side in one run, with room for a busy machine."""
    with Client(start_server().grpc_url) as client:
        first_s, *later_s = [client.synthesize("All is well.").timings.time_to_first_audio_s or 0.0 for _ in range(8)]
    assert 0 < first_s < 2 * statistics.median(later_s)
