"""On the real server: what is streamed equals the decode of the whole utterance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from embedded.running import RunningServer
from numpy.typing import NDArray
from support.model_config import MODEL_REPOSITORY
from support.raw import Response, ask, decode, frames_of, text
from support.whole import on_onnxruntime, whole_decode
from tritonclient.utils import InferenceServerException

TEXT = "The train to London leaves at half past nine."
SEED = 11


def speak(server: RunningServer, **options: Any) -> list[Response]:
    return ask(server.grpc_url, "orpheus_tts", {"TEXT": text(TEXT), "SEED": np.array([SEED], np.int64), **options})


@pytest.fixture(scope="module")
def whole(server: RunningServer) -> NDArray[np.int16]:
    """The utterance's codes straight from the language model, decoded here in one piece."""
    windows = ask(server.grpc_url, "orpheus_lm", {"TEXT": text(TEXT), "SEED": np.array([SEED], np.int64), "STANDALONE": np.array([True])})
    return whole_decode(on_onnxruntime(MODEL_REPOSITORY / "snac_decoder/1/pocket"), frames_of(windows))


@pytest.mark.parametrize("chunk_frames", [0, 1, 2, 3, 4, 8])
def test_streamed_audio_equals_the_whole_decode(server: RunningServer, whole: NDArray[np.int16], chunk_frames: int) -> None:
    responses = speak(server, CHUNK_FRAMES=np.array([chunk_frames], np.int32))
    audio = np.concatenate([r.outputs["AUDIO"] for r in responses])
    assert len(audio) == len(whole)
    assert len(audio) % 2048 == 0
    assert np.abs(audio.astype(int) - whole.astype(int)).max() <= 1
    assert whole.std() > 300
    if chunk_frames:
        sizes = [len(r.outputs["AUDIO"]) for r in responses[1:-1]]
        assert set(sizes) <= {2048 * chunk_frames}


def test_the_shape_of_a_stream(server: RunningServer) -> None:
    responses = speak(server)
    assert [int(r.outputs["INDEX"][0]) for r in responses] == list(range(len(responses)))
    assert [r.text("FINISH_REASON") for r in responses] == [""] * (len(responses) - 1) + ["stop"]
    assert [r.final for r in responses] == [False] * (len(responses) - 1) + [True], "the last data carries the final flag"
    assert all(r.outputs["AUDIO"].dtype == np.int16 for r in responses)
    assert len(responses[0].outputs["AUDIO"]) in (1024, 3072, 5120), "what three frames make final; up to two more where the model is slow"


def test_a_window_without_new_samples_comes_back_empty(server: RunningServer) -> None:
    assert len(decode(server.grpc_url, np.zeros((1, 7), np.int32), n_samples=0)) == 0


@pytest.mark.parametrize(
    ("codes", "first_sample", "message"),
    [
        (np.full((3, 7), 512, np.int32), 0, r"\[INVALID_ARGUMENT\] CODES must be from 0 to 511; found 512"),
        (np.zeros((3, 7), np.int32), 1, r"\[INVALID_ARGUMENT\] EMIT \[1, 6144\] lies outside"),
    ],
)
def test_a_wrong_window_is_refused(server: RunningServer, codes: NDArray[np.int32], first_sample: int, message: str) -> None:
    with pytest.raises(InferenceServerException, match=message):
        decode(server.grpc_url, codes, first_sample)
    assert len(decode(server.grpc_url, np.zeros((3, 7), np.int32))) == 6144
