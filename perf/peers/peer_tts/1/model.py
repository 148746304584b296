"""A model that gets frames from `orpheus_lm`, one at a time, and has them decoded by `snac_decoder`, in the way of `methods`.

The codec is called by BLS. The language model would be too, but on Triton 2.51 a model that so reads a decoupled one is killed now and then
("Reference count error detected", "malloc_consolidate(): unaligned fastbin chunk detected": one of four servers within some 50 streams),
so its frames come over the server's own gRPC, about a millisecond later.
"""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import methods
import numpy as np
import triton_python_backend_utils as pb_utils
import tritonclient.grpc as triton
from numpy.typing import NDArray

STREAMS = 64
PATIENCE_S = 30.0
TYPES = {"O": "BYTES", "?": "BOOL", "i": "INT32", "q": "INT64", "l": "INT64"}
"""Triton's names by NumPy's character of a type."""


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        self._method = json.loads(args["model_config"])["parameters"]["method"]["string_value"]
        self._url = _own_url()
        workers = 1 if self._method in methods.SERIAL else STREAMS
        self._pool = ThreadPoolExecutor(workers)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            given = ((name, pb_utils.get_input_tensor_by_name(request, name)) for name in ("TEXT", "SEED"))
            inputs = {name: tensor.as_numpy().copy() for name, tensor in given if tensor is not None}
            self._pool.submit(self._answer, inputs, request.get_response_sender())

    def finalize(self) -> None:
        self._pool.shutdown()

    def _answer(self, inputs: Mapping[str, NDArray[Any]], sender: Any) -> None:
        try:
            # Every response is held back by one, so that the last carries the end.
            index, waiting = 0, None
            for audio in self._speech(inputs):
                if waiting is not None:
                    sender.send(_response(waiting, index, ""))
                    index += 1
                waiting = audio
            sender.send(
                _response(np.zeros(0, np.int16) if waiting is None else waiting, index, "stop"),
                pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
            )
        except Exception as error:
            response = pb_utils.InferenceResponse(error=pb_utils.TritonError(f"[INTERNAL] {error}"))
            sender.send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _speech(self, inputs: Mapping[str, NDArray[Any]]) -> Iterator[NDArray[np.int16]]:
        codes: list[NDArray[np.int32]] = []

        def frame_counts() -> Iterator[int]:
            for frames in _frames(self._url, inputs):
                for frame in frames:
                    codes.append(frame)
                    yield len(codes)

        for wanted in methods.METHODS[self._method](frame_counts()):
            yield _decode(np.concatenate(codes[wanted.first_frame : wanted.end_frame]), wanted)


def _frames(url: str, inputs: Mapping[str, NDArray[Any]]) -> Iterator[list[NDArray[np.int32]]]:
    """New frames, int32 [7] each, as the language model makes them: the ends of its one-frame windows."""
    values = {**inputs, "STANDALONE": np.array([True]), "CHUNK_FRAMES": np.array([1], np.int32)}
    tensors = [triton.InferInput(name, list(value.shape), TYPES[value.dtype.char]) for name, value in values.items()]
    for tensor, value in zip(tensors, values.values(), strict=True):
        tensor.set_data_from_numpy(value)
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    seen = 0

    def take(result: Any, error: Any) -> None:
        answers.put((result, error))

    with triton.InferenceServerClient(url) as client:
        client.start_stream(take)
        client.async_stream_infer("orpheus_lm", tensors)
        while True:
            result, error = answers.get(timeout=PATIENCE_S)
            if error is not None:
                raise error
            first = int(result.as_numpy("FIRST_FRAME")[0])
            window = list(result.as_numpy("CODES").reshape(-1, 7))
            yield window[seen - first :]
            seen = max(seen, first + len(window))
            if result.as_numpy("FINISH_REASON")[0]:
                return


def _own_url() -> str:
    """Of the server that this process belongs to, from its command line (scripts/embedded/command.py)."""
    words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    return f"{given['grpc-address']}:{given['grpc-port']}"


def _decode(codes: NDArray[np.int32], wanted: methods.Decode) -> NDArray[np.int16]:
    values = {
        "CODES": codes.astype(np.int32)[None],
        "EMIT": np.array([[wanted.first_sample, wanted.n_samples]], np.int32),
        "FIRST_FRAME": np.array([[wanted.first_frame]], np.int64),
        "TICKET": np.zeros((1, 3), np.int64),
        "INDEX": np.zeros((1, 1), np.int32),
        "FINISH_REASON": np.array([[b""]], np.object_),
    }
    inputs = [pb_utils.Tensor(name, value) for name, value in values.items()]
    response = pb_utils.InferenceRequest(model_name="snac_decoder", inputs=inputs, requested_output_names=["AUDIO"]).exec()
    _check(response)
    return _array(response, "AUDIO").reshape(-1).astype(np.int16)


def _check(response: Any) -> None:
    if response.has_error():
        raise RuntimeError(response.error().message())


def _array(response: Any, name: str) -> Any:
    tensor = pb_utils.get_output_tensor_by_name(response, name)
    if tensor is None:
        raise RuntimeError(f"no tensor {name}")
    return tensor.as_numpy()


def _response(audio: NDArray[np.int16], index: int, reason: str) -> Any:
    values = (("AUDIO", audio), ("INDEX", np.array([index], np.int32)), ("FINISH_REASON", np.array([reason.encode()], np.object_)))
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in values])
