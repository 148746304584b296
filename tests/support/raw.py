"""Requests with tritonclient alone: what the server does, without what our client makes of it."""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tritonclient.grpc as grpc
from numpy.typing import NDArray

TYPES = {
    np.dtype("O"): "BYTES",
    np.dtype(bool): "BOOL",
    np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64",
    np.dtype(np.float32): "FP32",
}


@dataclass(frozen=True)
class Response:
    """outputs: the tensors that came; final: Triton's flag."""

    outputs: dict[str, NDArray[Any]]
    final: bool

    def text(self, name: str) -> str:
        return self.outputs[name].reshape(-1)[0].decode()


def text(value: str | bytes) -> NDArray[Any]:
    return np.array([value if isinstance(value, bytes) else value.encode()], object)


def inputs(tensors: Mapping[str, NDArray[Any]]) -> list[grpc.InferInput]:
    made: list[grpc.InferInput] = []
    for name, array in tensors.items():
        made.append(grpc.InferInput(name, list(array.shape), TYPES[array.dtype]))
        made[-1].set_data_from_numpy(array)
    return made


class RawStream:
    """One gRPC stream, which may carry several requests; responses and errors come out of `answers` in order of arrival."""

    def __init__(self, client: grpc.InferenceServerClient) -> None:
        self.client = client
        self.answers: queue.Queue[Response | Exception] = queue.Queue()
        client.start_stream(callback=self._take)

    def _take(self, result: Any, error: Any) -> None:
        if error is not None:
            self.answers.put(error)
            return
        message = result.get_response()
        outputs = {output.name: result.as_numpy(output.name) for output in message.outputs}
        self.answers.put(Response(outputs, message.parameters["triton_final_response"].bool_param))

    def send(self, model: str, tensors: Mapping[str, NDArray[Any]], request_id: str = "") -> None:
        self.client.async_stream_infer(model, inputs(tensors), request_id=request_id, enable_empty_final_response=True)

    def responses(self, timeout_s: float = 60.0) -> Iterator[Response]:
        """Up to the final one. Raises the error that came instead, and queue.Empty after timeout_s without any."""
        while True:
            answer = self.answers.get(timeout=timeout_s)
            if isinstance(answer, Exception):
                raise answer
            yield answer
            if answer.final:
                return


@contextmanager
def raw_stream(url: str) -> Generator[RawStream]:
    with grpc.InferenceServerClient(url) as client:
        stream = RawStream(client)
        try:
            yield stream
        finally:
            client.stop_stream()


def ask(url: str, model: str, tensors: Mapping[str, NDArray[Any]], request_id: str = "", timeout_s: float = 60.0) -> list[Response]:
    """All responses of one request."""
    with raw_stream(url) as stream:
        stream.send(model, tensors, request_id)
        return list(stream.responses(timeout_s))


def decode(
    url: str, codes: NDArray[np.int32], first_sample: int = 0, n_samples: int | None = None, first_frame: int = 0
) -> NDArray[np.int16]:
    """A window straight to the codec: codes int32 [n_frames, 7]; n_samples: default all."""
    samples = 2048 * len(codes) if n_samples is None else n_samples
    tensors = {
        "CODES": codes.reshape(1, -1).astype(np.int32),
        "EMIT": np.array([[first_sample, samples]], np.int32),
        "FIRST_FRAME": np.array([[first_frame]], np.int64),
        "TICKET": np.zeros((1, 3), np.int64),
        "INDEX": np.zeros((1, 1), np.int32),
        "FINISH_REASON": np.array([[b""]], object),
    }
    with grpc.InferenceServerClient(url) as client:
        result: Any = client.infer("snac_decoder", inputs(tensors))
        return result.as_numpy("AUDIO").reshape(-1)


def frames_of(windows: list[Response]) -> NDArray[np.int32]:
    """The stream's frames [n, 7] out of the language model's windows; frames that two windows share must agree."""
    frames: dict[int, tuple[int, ...]] = {}
    for window in windows:
        first = int(window.outputs["FIRST_FRAME"][0])
        for at, frame in enumerate(window.outputs["CODES"].reshape(-1, 7)):
            assert frames.setdefault(first + at, tuple(frame)) == tuple(frame)
    assert sorted(frames) == list(range(len(frames)))
    return np.array([frames[i] for i in range(len(frames))], np.int32)
