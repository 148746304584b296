"""Bad input, sent raw: one clear error before any audio, or audio by stated policy; never a hang; nobody else is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from embedded.running import RunningServer
from support.raw import ask, text
from tritonclient.utils import InferenceServerException


def refusal(server: RunningServer, **tensors: Any) -> str:
    with pytest.raises(InferenceServerException) as caught:
        ask(server.grpc_url, "orpheus_tts", tensors, timeout_s=30)
    return str(caught.value)


@pytest.mark.parametrize("said", ["", " ", "\n\t", "\0", "\u200b"])
def test_empty_text(server: RunningServer, said: str) -> None:
    assert "[INVALID_ARGUMENT] TEXT is empty" in refusal(server, TEXT=text(said))


@pytest.mark.parametrize("said", ["...", "!?", "\N{GRINNING FACE}", "\N{EM DASH}"])
def test_text_without_a_word(server: RunningServer, said: str) -> None:
    assert "[INVALID_ARGUMENT] TEXT holds nothing that can be spoken" in refusal(server, TEXT=text(said))


@pytest.mark.parametrize("model", ["orpheus_tts", "orpheus_lm"])
def test_no_text_at_all(server: RunningServer, model: str) -> None:
    """Found by fuzzing: with TEXT required in config.pbtxt, Triton 2.51 ends the ensemble's call with no response, as if all were well."""
    with pytest.raises(InferenceServerException, match=r"\[INVALID_ARGUMENT\] TEXT is missing"):
        ask(server.grpc_url, model, {"SEED": np.array([1], np.int64)})


def test_invalid_utf8(server: RunningServer) -> None:
    assert "[INVALID_ARGUMENT] TEXT is not valid UTF-8" in refusal(server, TEXT=text(b"caf\xe9"))


@pytest.mark.parametrize("said", ["Caf\u00e9 is open.", "One\0two.", "\u201cHello\u201d\u00a0there."])
def test_unusual_characters_are_spoken(server: RunningServer, said: str) -> None:
    responses = ask(server.grpc_url, "orpheus_tts", {"TEXT": text(said)})
    assert responses[-1].text("FINISH_REASON") == "stop"
    assert sum(len(r.outputs["AUDIO"]) for r in responses) > 2048


def test_unknown_voice_lists_the_voices(server: RunningServer) -> None:
    assert "[INVALID_ARGUMENT] VOICE 'nobody' is unknown; voices are: pocket" in refusal(server, TEXT=text("Hello."), VOICE=text("nobody"))


@pytest.mark.parametrize("shape", [(1, 1), (2,), (0,)])
def test_other_shapes(server: RunningServer, shape: tuple[int, ...]) -> None:
    refusal(server, TEXT=np.full(shape, b"Hello.", object))


def test_text_that_is_too_long(server: RunningServer) -> None:
    message = refusal(server, TEXT=text("a" * 32_001))
    assert "[INVALID_ARGUMENT] TEXT has 32001 characters; this server takes at most 32000" in message


def test_stop_without_a_request_id(server: RunningServer) -> None:
    with pytest.raises(InferenceServerException, match="STOP ends the stream with the same request id"):
        ask(server.grpc_url, "orpheus_lm", {"TEXT": text(""), "STOP": np.array([True])})
