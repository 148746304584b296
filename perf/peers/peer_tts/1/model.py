"""A BLS model that gets frames from `orpheus_lm`, one at a time, and has them decoded by `snac_decoder`, in the way of `methods`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import methods
import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

STREAMS = 64


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        self._method = json.loads(args["model_config"])["parameters"]["method"]["string_value"]
        workers = 1 if self._method in methods.SERIAL else STREAMS
        self._pool = ThreadPoolExecutor(workers)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            given = ((name, pb_utils.get_input_tensor_by_name(request, name)) for name in ("TEXT", "SEED"))
            inputs = {name: tensor.as_numpy().copy() for name, tensor in given if tensor is not None}
            self._pool.submit(self._answer, inputs, request.get_response_sender())

    def finalize(self) -> None:
        self._pool.shutdown()

    def _answer(self, inputs: dict[str, NDArray[Any]], sender: Any) -> None:
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

    def _speech(self, inputs: dict[str, NDArray[Any]]) -> Iterator[NDArray[np.int16]]:
        codes: list[NDArray[np.int32]] = []

        def frame_counts() -> Iterator[int]:
            for frames in _frames(inputs):
                for frame in frames:
                    codes.append(frame)
                    yield len(codes)

        for wanted in methods.METHODS[self._method](frame_counts()):
            yield _decode(np.concatenate(codes[wanted.first_frame : wanted.end_frame]), wanted)


def _frames(inputs: dict[str, NDArray[Any]]) -> Iterator[list[NDArray[np.int32]]]:
    """New frames, int32 [7] each, as the language model makes them: the ends of its one-frame windows.

    FINISH_REASON is not asked for: with strings in the responses of such a call Triton 2.51 kills the process more often ("Reference count
    error detected: an attempt was made to deallocate the dtype 17 (O)").
    """
    values = {**inputs, "STANDALONE": np.array([True]), "CHUNK_FRAMES": np.array([1], np.int32)}
    tensors = [pb_utils.Tensor(name, value) for name, value in values.items()]
    request = pb_utils.InferenceRequest(
        model_name="orpheus_lm", inputs=tensors, requested_output_names=["CODES", "FIRST_FRAME"]
    )
    seen = 0
    for response in request.exec(decoupled=True):
        _check(response)
        if not response.output_tensors():  # the empty final response
            continue
        first = int(_array(response, "FIRST_FRAME")[0])
        window = list(_array(response, "CODES").reshape(-1, 7))
        yield window[seen - first :]
        seen = max(seen, first + len(window))


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
