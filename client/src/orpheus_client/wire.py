"""The server's tensors in Triton's protocol: requests to bytes, responses to values. No I/O, no state.

The protocol classes are those generated in tritonclient; they carry no types, hence `Any` here and opaque messages elsewhere.
Format: kserve "Open Inference Protocol" gRPC definition; raw contents are little-endian and a BYTES element has a 4-byte length in front.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc  # pyright: ignore[reportMissingTypeStubs]

from .errors import InvalidRequest, ServerError, from_stream_message
from .server_info import Health
from .speech import SpeechRequest

SPEECH_MODEL = "orpheus_tts"
LANGUAGE_MODEL = "orpheus_lm"
SAMPLE_RATE_HZ = 24_000  # fixed by the contract of orpheus_tts' AUDIO
FINAL = "triton_final_response"

protocol: Any = service_pb2
make_stub: Any = service_pb2_grpc.GRPCInferenceServiceStub  # pyright: ignore[reportUnknownMemberType]

_PACK = {"FP32": "<f", "INT32": "<i", "INT64": "<q", "BOOL": "<?"}
_INPUTS = (
    ("voice", "VOICE", "BYTES"),
    ("temperature", "TEMPERATURE", "FP32"),
    ("top_p", "TOP_P", "FP32"),
    ("top_k", "TOP_K", "INT32"),
    ("repetition_penalty", "REPETITION_PENALTY", "FP32"),
    ("max_tokens", "MAX_TOKENS", "INT32"),
    ("seed", "SEED", "INT64"),
    ("chunk_frames", "CHUNK_FRAMES", "INT32"),
)
_DTYPES = {"INT16": "<i2", "INT32": "<i4"}


def speech_message(request: SpeechRequest, model: str, request_id: str) -> Any:
    """ModelInferRequest for one utterance. Raises InvalidRequest for a value that its tensor cannot hold; ranges are the server's task."""
    message = protocol.ModelInferRequest(model_name=model, id=request_id)
    _add(message, "TEXT", "BYTES", request.text)
    for field, name, datatype in _INPUTS:
        value = getattr(request, field)
        if value is not None:
            _add(message, name, datatype, value)
    return message


def stop_message(model: str, request_id: str) -> Any:
    """Ends the running stream with this request id."""
    return _order(model, "STOP", request_id)


def describe_message(model: str) -> Any:
    return _order(model, "DESCRIBE", "")


def _order(model: str, name: str, request_id: str) -> Any:
    message = protocol.ModelInferRequest(model_name=model, id=request_id)
    _add(message, "TEXT", "BYTES", "")
    _add(message, name, "BOOL", True)
    return message


def _add(message: Any, name: str, datatype: str, value: Any) -> None:
    message.inputs.add(name=name, datatype=datatype, shape=[1])
    message.raw_input_contents.append(_encode(name, datatype, value))


def _encode(name: str, datatype: str, value: Any) -> bytes:
    if datatype == "BYTES":
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} must be a string, not {type(value).__name__}")
        try:
            encoded = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"{name} holds half a surrogate pair at position {error.start}") from None
        return struct.pack("<I", len(encoded)) + encoded
    try:
        return struct.pack(_PACK[datatype], value)
    except (struct.error, OverflowError):
        raise InvalidRequest(f"{name} must be a number that fits {datatype}, not {value!r:.40}") from None


@dataclass(frozen=True)
class Response:
    """One message of a stream: an error, or output tensors by name."""

    error: str
    outputs: Mapping[str, NDArray[Any] | str]


@dataclass(frozen=True, eq=False)
class ChunkTensors:
    """audio: int16 [n], not writable."""

    audio: NDArray[np.int16]
    index: int
    finish_reason: str


def read_response(message: Any) -> Response:
    """message: ModelStreamInferResponse. Of a BYTES tensor the first element is read. A tensor of a type that we do not use is left out."""
    if message.error_message:
        return Response(message.error_message, {})
    inner = message.infer_response
    named = ((output.name, _decode(output.datatype, raw)) for output, raw in zip(inner.outputs, inner.raw_output_contents, strict=False))
    return Response("", {name: value for name, value in named if value is not None})


def chunk_tensors(response: Response) -> ChunkTensors | None:
    """None where this is no answer of orpheus_tts."""
    audio, index, reason = (response.outputs.get(name) for name in ("AUDIO", "INDEX", "FINISH_REASON"))
    if isinstance(audio, str) or audio is None or audio.dtype != np.int16 or not isinstance(reason, str):
        return None
    if isinstance(index, str) or index is None or index.shape != (1,):
        return None
    return ChunkTensors(audio, int(index[0]), reason)


def read_answer(messages: Sequence[Any], name: str) -> str:
    """The value of one output in the only response of an order. messages: ModelStreamInferResponse. Raises OrpheusError."""
    for response in map(read_response, messages):
        if response.error:
            raise from_stream_message(response.error, "")
        value = response.outputs.get(name)
        if isinstance(value, str):
            return value
    raise ServerError(f"the answer holds no {name}")


def health_calls(*models: str) -> dict[str, tuple[str, Any]]:
    """Method and message of each call that `read_health` wants answered, by name; a model's name is "model/..."."""
    return {
        "live": ("ServerLive", protocol.ServerLiveRequest()),
        "ready": ("ServerReady", protocol.ServerReadyRequest()),
        "metadata": ("ServerMetadata", protocol.ServerMetadataRequest()),
        **{f"model/{model}": ("ModelReady", protocol.ModelReadyRequest(name=model)) for model in models},
    }


def read_health(answers: Mapping[str, Any]) -> Health:
    models = {name.removeprefix("model/"): bool(answer.ready) for name, answer in answers.items() if name.startswith("model/")}
    return Health(bool(answers["live"].live), bool(answers["ready"].ready), models, str(answers["metadata"].version))


def _decode(datatype: str, content: bytes) -> NDArray[Any] | str | None:
    if datatype == "BYTES":
        return content[4:].decode(errors="replace")
    if datatype in _DTYPES:
        numbers: NDArray[Any] = np.frombuffer(content, _DTYPES[datatype])
        return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
    return None
