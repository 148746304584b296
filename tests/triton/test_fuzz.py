"""Anything at all, sent raw to the three models: every request is answered, and the server goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc.service_pb2 as messages
import tritonclient.grpc.service_pb2_grpc as services
from embedded.running import RunningServer
from embedded.vitals import processes_of, wait_until_idle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orpheus_client import Client

# Generated modules, of which type checkers see nothing.
generated: Any = messages
generated_grpc: Any = services

ANSWERED_WITHIN_S = 30.0
"""A stream whose windows nobody decodes ends after dead_stream_ms."""
FUZZ = settings(
    max_examples=350, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TYPES = {"BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT64": 8, "FP16": 2, "FP32": 4, "FP64": 8, "BYTES": 0}
SPEECH_INPUTS = {
    "TEXT": "BYTES", "VOICE": "BYTES", "TEMPERATURE": "FP32", "TOP_P": "FP32", "TOP_K": "INT32", "REPETITION_PENALTY": "FP32",
    "MAX_TOKENS": "INT32", "SEED": "INT64", "CHUNK_FRAMES": "INT32",
}  # fmt: skip
MODEL_INPUTS = {
    "orpheus_tts": SPEECH_INPUTS,
    "orpheus_lm": {**SPEECH_INPUTS, "STOP": "BOOL", "DESCRIBE": "BOOL", "STANDALONE": "BOOL"},
    "snac_decoder": {
        "CODES": "INT32", "EMIT": "INT32", "FIRST_FRAME": "INT64", "TICKET": "INT64", "INDEX": "INT32", "FINISH_REASON": "BYTES",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


def bytes_tensor(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def plausible(datatype: str) -> st.SearchStrategy[bytes]:
    """Data of one element, of the right size."""
    if datatype == "BYTES":
        words = st.sampled_from(["", " ", "Yes.", "No, <laugh> not \u202e today.", "pocket", "\ud7ff\U0001f600", "a" * 300])
        return (words.map(str.encode) | st.binary(max_size=60)).map(bytes_tensor)
    size = TYPES[datatype]
    extremes = st.sampled_from([bytes(size), b"\xff" * size, b"\x7f" + b"\xff" * (size - 1), b"\x01" + bytes(size - 1)])
    return extremes | st.binary(min_size=size, max_size=size)


@st.composite
def tensors(draw: st.DrawFn, name: str, right: str) -> Tensor:
    """Mostly of the right type and size, else of any."""
    if draw(st.integers(0, 3)):
        shape = draw(st.sampled_from([(1,), (1, 1)] if name not in ("CODES", "EMIT", "TICKET") else [(1, 7), (1, 2), (1, 3), (7,)]))
        elements = int(np.prod(shape))
        return Tensor(name, right, shape, b"".join(draw(plausible(right)) for _ in range(elements)))
    datatype = draw(st.sampled_from(list(TYPES)))
    shape = tuple(draw(st.lists(st.integers(-1, 9), max_size=4)))
    return Tensor(name, datatype, shape, draw(st.binary(max_size=80) | plausible(datatype)))


@st.composite
def requests(draw: st.DrawFn, model: str) -> list[Tensor]:
    """Some of the model's inputs, now and then twice or with a name of nobody's."""
    names = MODEL_INPUTS[model]
    chosen = draw(st.lists(st.sampled_from(list(names)), unique=draw(st.booleans()), max_size=len(names)))
    wanted = list(names) if model == "snac_decoder" else ["TEXT"]
    given = [*wanted, *(name for name in chosen if name not in wanted)] if draw(st.integers(0, 4)) else chosen
    made = [draw(tensors(name, names[name])) for name in given]
    return made + ([Tensor("NOBODYS", "INT32", (1,), bytes(4))] if not draw(st.integers(0, 20)) else [])


def answers(server: RunningServer, model: str, given: list[Tensor]) -> int:
    """Send it and wait for the end; -> how many responses came. Raises AssertionError where there is none in time."""
    request = generated.ModelInferRequest(model_name=model, id="fuzz")
    for tensor in given:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.data)
    with grpc.insecure_channel(server.grpc_url) as channel:
        call = generated_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=ANSWERED_WITHIN_S)
        with suppress(grpc.RpcError):
            return sum(1 for _ in call)
        assert call.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE), given
        return 1


@pytest.fixture(scope="module")
def fuzzed(server: RunningServer) -> Iterator[RunningServer]:
    """Afterwards its processes are the same, and it speaks."""
    before = processes_of(server.pid)
    yield server
    wait_until_idle(server)
    assert processes_of(server.pid) == before
    with Client(server.grpc_url) as client:
        assert client.synthesize("All is well.").finish_reason == "stop"


@FUZZ
@given(given=requests("orpheus_tts"))
def test_the_ensemble(fuzzed: RunningServer, given: list[Tensor]) -> None:
    assert answers(fuzzed, "orpheus_tts", given) > 0


@FUZZ
@given(given=requests("orpheus_lm"))
def test_the_language_model(fuzzed: RunningServer, given: list[Tensor]) -> None:
    assert answers(fuzzed, "orpheus_lm", given) > 0


@FUZZ
@given(given=requests("snac_decoder"))
def test_the_codec(fuzzed: RunningServer, given: list[Tensor]) -> None:
    assert answers(fuzzed, "snac_decoder", given) > 0
