from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from speech_lm.errors import InvalidRequest
from speech_lm.requests import DescribeRequest, SpeechRequest, StopRequest, parse_request
from speech_lm.voice import Voice, load_voice

POCKET = Path(__file__).parents[3] / "model_repository/orpheus_lm/1/pocket"


@pytest.fixture(scope="module")
def voice() -> Voice:
    return load_voice(POCKET)


def strings(value: str | bytes, shape: tuple[int, ...] = (1,)) -> NDArray[Any]:
    return np.full(shape, value if isinstance(value, bytes) else value.encode(), object)


def parse(voice: Voice, **tensors: Any) -> Any:
    return parse_request(tensors.pop("request_id", "id"), tensors, voice, max_text_characters=1000, max_chunk_frames=8)


def test_defaults_are_the_voices(voice: Voice) -> None:
    request = parse(voice, TEXT=strings("Hello."))
    assert request == SpeechRequest(
        request_id="id", text="Hello.", voice=voice.voices[0], temperature=voice.sampling.temperature,
        top_p=voice.sampling.top_p,
        top_k=voice.sampling.top_k, repetition_penalty=voice.sampling.repetition_penalty,
        max_tokens=None, seed=None, chunk_frames=0, standalone=False,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\x00", "\u200b\ufeff"])
def test_empty_text(voice: Voice, text: str) -> None:
    with pytest.raises(InvalidRequest, match="TEXT is empty"):
        parse(voice, TEXT=strings(text))


def test_text_is_normalised(voice: Voice) -> None:
    nfc = parse(voice, TEXT=strings("Caf\u00e9\u00a0is\u202fopen\x00now\n")).text
    nfd = parse(voice, TEXT=strings("Cafe\u0301 is open\u200b now")).text
    assert nfc == nfd == "Caf\u00e9 is open now"


def test_invalid_utf8_names_the_field_and_not_the_text(voice: Voice) -> None:
    with pytest.raises(InvalidRequest, match=r"TEXT is not valid UTF-8 \(byte 6\)") as caught:
        parse(voice, TEXT=strings(b"secret\xff\xfe"))
    assert "secret" not in str(caught.value)


def test_too_long(voice: Voice) -> None:
    with pytest.raises(InvalidRequest, match="1001 characters; this server takes at most 1000"):
        parse(voice, TEXT=strings("a" * 1001))


def test_missing_text(voice: Voice) -> None:
    with pytest.raises(InvalidRequest, match="TEXT is missing"):
        parse(voice)


def test_unknown_voice_lists_the_voices(voice: Voice) -> None:
    with pytest.raises(InvalidRequest, match=f"VOICE 'nobody' is unknown; voices are: .*{voice.voices[0]}"):
        parse(voice, TEXT=strings("Hello."), VOICE=strings("nobody"))


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_any_shape_of_one_element(voice: Voice, shape: tuple[int, ...]) -> None:
    assert parse(voice, TEXT=strings("Hello.", shape)).text == "Hello."


@pytest.mark.parametrize("shape", [(0,), (2,), (1, 2)])
def test_other_shapes_are_refused(voice: Voice, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="TEXT must hold one value"):
        parse(voice, TEXT=strings("Hello.", shape))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TEMPERATURE", np.float32(-0.1)), ("TEMPERATURE", np.float32(2.1)),
        ("TEMPERATURE", np.float32("nan")), ("TEMPERATURE", np.float32("inf")),
        ("TOP_P", np.float32(0)), ("TOP_P", np.float32(1.01)), ("REPETITION_PENALTY", np.float32(0)), ("TOP_K", np.int32(-1)),
        ("MAX_TOKENS", np.int32(6)), ("SEED", np.int64(-1)), ("CHUNK_FRAMES", np.int32(9)), ("CHUNK_FRAMES", np.int32(-1)),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(voice: Voice, name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} must be"):
        parse(voice, TEXT=strings("Hello."), **{name: np.array([value])})


def test_values_in_range_are_taken(voice: Voice) -> None:
    request = parse(
        voice, TEXT=strings("Hi."), TEMPERATURE=np.array([0.0], np.float32), TOP_P=np.array([1.0], np.float32),
        TOP_K=np.array([5], np.int32),
        MAX_TOKENS=np.array([700], np.int32), SEED=np.array([7], np.int64), CHUNK_FRAMES=np.array([8], np.int32),
        STANDALONE=np.array([True]),
    )  # fmt: skip
    assert (request.temperature, request.top_p, request.top_k, request.max_tokens) == (0.0, 1.0, 5, 700)
    assert (request.seed, request.chunk_frames, request.standalone) == (7, 8, True)


def test_stop_and_describe(voice: Voice) -> None:
    assert parse(voice, STOP=np.array([True]), TEXT=strings("")) == StopRequest("id")
    assert parse(voice, DESCRIBE=np.array([True]), TEXT=strings("")) == DescribeRequest()
    with pytest.raises(InvalidRequest, match="same request id"):
        parse(voice, request_id="", STOP=np.array([True]), TEXT=strings(""))
