"""What speech models really do wrong, through the real server: it costs what it must, is counted, and never looks like success."""

from __future__ import annotations

import time

import numpy as np
import pytest
from speech_lm.segments import split_text
from speech_lm.voice import load_voice
from support.raw import Response, ask, decode, raw_stream, text
from support.scripted_engine import Script
from support.scripted_server import CODEBOOK_SIZE, ScriptedServer, audio, start_scripted
from support.server import MODEL_REPOSITORY, StartServer
from tritonclient.utils import InferenceServerException


@pytest.fixture(scope="module")
def scripted(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> ScriptedServer:
    return start_scripted(start_server, tmp_path_factory.mktemp("scripted"), dead_stream_ms="1000", max_streams="16")


def wait_for(scripted: ScriptedServer, name: str, value: float, timeout_s: float = 15.0) -> None:
    until = time.monotonic() + timeout_s
    while scripted.metric(name) != value and time.monotonic() < until:
        time.sleep(0.1)
    assert scripted.metric(name) == value


@pytest.mark.parametrize("slot", range(7))
@pytest.mark.parametrize("fault", ["zero", "last", "drop", "double", "above", "text", "insert_text"])
def test_one_bad_token_costs_one_frame_at_most(scripted: ScriptedServer, fault: str, slot: int) -> None:
    scripted.play(Script(frames=8, faults={3 * 7 + slot: fault}))
    samples = audio(scripted.speak())
    lost = 8 - len(samples) / 2048
    assert lost == (0 if fault in ("zero", "last", "insert_text") or (fault, slot) in (("double", 0), ("double", 6)) else 1)


@pytest.mark.parametrize("tokens", [7, 21, 27, 28, 29, 34, 35])
def test_any_number_of_tokens(scripted: ScriptedServer, tokens: int) -> None:
    """A partial frame at the end is dropped; an end of speech at each position in a frame is one of these."""
    script = Script(frames=tokens // 7, extra_tokens=tokens % 7)
    scripted.play(script)
    samples = audio(scripted.speak())
    assert len(samples) == tokens // 7 * 2048
    assert np.abs(samples.astype(int) - scripted.whole(Script(frames=tokens // 7)).astype(int)).max() <= 1


@pytest.mark.parametrize("position", range(7))
def test_end_of_speech_at_each_position(scripted: ScriptedServer, position: int) -> None:
    scripted.play(Script(frames=5, extra_tokens=position))
    responses = scripted.speak()
    assert len(audio(responses)) == 5 * 2048
    assert responses[-1].text("FINISH_REASON") == "stop"


@pytest.mark.parametrize("update_tokens", [1, 3, 7, 50])
def test_the_size_of_updates_does_not_matter(scripted: ScriptedServer, update_tokens: int) -> None:
    script = Script(frames=20, update_tokens=update_tokens)
    scripted.play(script)
    assert np.abs(audio(scripted.speak()).astype(int) - scripted.whole(script).astype(int)).max() <= 1


@pytest.mark.parametrize("chunk_frames", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("frames", [1, 2, 3, 4, 11, 20])
def test_every_length_and_chunk_size(scripted: ScriptedServer, frames: int, chunk_frames: int) -> None:
    script = Script(frames=frames, codes_seed=frames)
    scripted.play(script)
    samples = audio(scripted.speak(CHUNK_FRAMES=np.array([chunk_frames], np.int32)))
    assert len(samples) == 2048 * frames
    assert np.abs(samples.astype(int) - scripted.whole(script).astype(int)).max() <= 1


@pytest.mark.parametrize("characters", [2_000, 20_000])
def test_a_long_text_is_spoken_whole_in_order_and_without_a_seam(scripted: ScriptedServer, characters: int) -> None:
    """Each segment has a script of its own; together they decode as one utterance."""
    said = ("The quick brown fox jumps over the lazy dog. " * (characters // 45 + 1))[:characters]
    segments = split_text(said.strip(), load_voice(MODEL_REPOSITORY / "orpheus_lm/1/pocket").length.max_segment_characters)
    scripts = {seed: Script(frames=3 + seed % 4, codes_seed=seed, update_tokens=50) for seed in range(len(segments))}
    scripted.play(by_seed=scripts)
    samples = audio(scripted.speak(seed=0, said=said))
    codes = [frame for script in scripts.values() for frame in script.codes(CODEBOOK_SIZE)]
    assert len(samples) == 2048 * len(codes)
    first = decode(scripted.url, np.array(codes[:60], np.int32))[: 50 * 2048]
    assert np.abs(samples[: len(first)].astype(int) - first[: len(samples)].astype(int)).max() <= 1


@pytest.mark.parametrize("script", [Script(frames=0), Script(text_only=True, frames=20), Script(frames=0, extra_tokens=6)])
def test_no_audio_is_an_error_that_says_so(scripted: ScriptedServer, script: Script) -> None:
    scripted.play(script)
    with pytest.raises(InferenceServerException, match=r"\[INTERNAL\] the model ended without one whole frame of audio"):
        scripted.speak()


@pytest.mark.parametrize("repeat", [False, True])
def test_a_model_that_never_ends_is_bounded_by_the_text(scripted: ScriptedServer, repeat: bool) -> None:
    scripted.play(Script(frames=None, repeat=repeat))
    responses = scripted.speak(said="Hello.")
    assert responses[-1].text("FINISH_REASON") == "length"
    assert 12 * 2048 <= len(audio(responses)) < 40 * 2048
    wait_for(scripted, "orpheus_lm_active_streams", 0)


def test_an_engine_that_fails_in_mid_stream(scripted: ScriptedServer) -> None:
    scripted.play(Script(frames=20, raise_after=12 * 7, tokens_per_s=300))
    chunks: list[Response] = []
    with raw_stream(scripted.url) as stream:
        stream.send("orpheus_tts", {"TEXT": text("Hello there.")})
        with pytest.raises(InferenceServerException, match=r"\[INTERNAL\] the engine failed: the script says so"):
            chunks += stream.responses()
    assert all(chunk.text("FINISH_REASON") == "" for chunk in chunks)
    scripted.play(Script(frames=4))
    assert len(audio(scripted.speak())) == 4 * 2048


def test_stop_ends_a_hanging_stream_and_frees_its_slot(scripted: ScriptedServer) -> None:
    scripted.play(Script(frames=40, hang_after=10 * 7))
    cancels = scripted.metric("orpheus_lm_cancels_total")
    with raw_stream(scripted.url) as stream:
        stream.send("orpheus_tts", {"TEXT": text("Hello there.")}, request_id="mine")
        heard = [stream.answers.get(timeout=30), stream.answers.get(timeout=30)]
        (answer,) = ask(scripted.url, "orpheus_lm", {"TEXT": text(""), "STOP": np.array([True])}, request_id="mine")
        assert answer.text("FINISH_REASON") == "cancelled"
        rest = list(stream.responses())
    assert all(not isinstance(response, Exception) for response in heard)
    assert rest[-1].text("FINISH_REASON") == "cancelled"
    wait_for(scripted, "orpheus_lm_cancels_total", cancels + 1)
    wait_for(scripted, "orpheus_lm_active_streams", 0)
    (answer,) = ask(scripted.url, "orpheus_lm", {"TEXT": text(""), "STOP": np.array([True])}, request_id="mine")
    assert answer.text("FINISH_REASON") == "not_found"


def test_a_listener_that_vanished_is_noticed(scripted: ScriptedServer) -> None:
    """The call is cancelled and nobody sends STOP: the codec gets no more windows, so the stream is given up and its generation ends."""
    scripted.play(Script(frames=2000, tokens_per_s=100))
    before = scripted.metric("orpheus_lm_cancels_total")
    long_text = "This is a long text that goes on and on. " * 4
    with raw_stream(scripted.url) as stream:
        stream.send("orpheus_tts", {"TEXT": text(long_text), "CHUNK_FRAMES": np.array([1], np.int32)}, request_id="gone")
        stream.answers.get(timeout=30)
        wait_for(scripted, "orpheus_lm_active_streams", 1)
        stream.client.stop_stream(cancel_requests=True)
    wait_for(scripted, "orpheus_lm_active_streams", 0)
    wait_for(scripted, "orpheus_lm_cancels_total", before + 1)
    assert scripted.metric("orpheus_lm_active_generations") == 0
    scripted.play(Script(frames=4))
    assert len(audio(scripted.speak())) == 4 * 2048
