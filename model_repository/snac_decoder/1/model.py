"""Triton's adapter of `snac_codec`: the only file of this model that knows pb_utils."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray
from snac_codec.acks import Acknowledger
from snac_codec.batching import decode_windows
from snac_codec.engines import create_engine
from snac_codec.metrics import BATCH_ROWS_BUCKETS, FAMILIES
from snac_codec.settings import load_settings
from snac_codec.tiles import cut
from snac_codec.window import InvalidWindow, Window, parse_window

WINDOW_INPUTS = ("CODES", "EMIT", "FIRST_FRAME")


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = {key: value["string_value"] for key, value in json.loads(args["model_config"])["parameters"].items()}
        self._settings = load_settings(parameters)
        folder = self._settings.path(Path(args["model_repository"]) / args["model_version"])
        self._engine = create_engine(self._settings, folder)
        self._pool = ThreadPoolExecutor(self._engine.calls, thread_name_prefix="decode")
        self._acknowledger = Acknowledger()
        self._metrics = Counters()

    def finalize(self) -> None:
        self._pool.shutdown()
        self._engine.close()

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order. A window that is wrong, or whose forward fails, gets its own error; the others are served."""
        began = time.perf_counter()
        tickets = [_values(request, "TICKET", 3) for request in requests]
        self._acknowledger.batch_started({ticket[0] for ticket in tickets})
        answers: list[Any] = [None] * len(requests)
        rows, windows = self._parse(requests, answers)
        for at, result in decode_windows(self._engine, windows, self._pool):
            request = requests[rows[at]]
            answers[rows[at]] = (
                _error("INTERNAL", f"the codec failed: {result}") if isinstance(result, Exception) else _speech(request, result)
            )
            self._acknowledge(request, tickets[rows[at]])
        self._acknowledger.batch_finished()
        self._count(windows, answers, time.perf_counter() - began)
        return answers

    def _parse(self, requests: list[Any], answers: list[Any]) -> tuple[list[int], list[Window]]:
        """The windows that can be decoded, and which request each belongs to; the others are answered."""
        rows: list[int] = []
        windows: list[Window] = []
        for row, request in enumerate(requests):
            tensors = {name: _input(request, name) for name in WINDOW_INPUTS}
            try:
                windows.append(parse_window(tensors, self._engine.config, self._settings.max_frames))
                rows.append(row)
            except InvalidWindow as error:
                answers[row] = _error("INVALID_ARGUMENT", str(error))
                self._acknowledge(request, _values(request, "TICKET", 3))
        return rows, windows

    def _acknowledge(self, request: Any, ticket: list[int]) -> None:
        self._acknowledger.acknowledge(ticket, _values(request, "INDEX", 1)[0])

    def _count(self, windows: list[Window], answers: list[Any], seconds: float) -> None:
        self._metrics.add("snac_decoder_windows_total", len(answers))
        self._metrics.add("snac_decoder_batches_total", 1)
        self._metrics.add(
            "snac_decoder_tiles_total", sum(len(cut(0, window, self._engine.config, self._engine.sizes)) for window in windows)
        )
        self._metrics.add("snac_decoder_samples_total", sum(window.n_samples for window in windows))
        self._metrics.add("snac_decoder_errors_total", sum(answer.has_error() for answer in answers))
        self._metrics.add("snac_decoder_decode_seconds_total", seconds)
        for edge in BATCH_ROWS_BUCKETS:
            if len(answers) <= edge:
                self._metrics.add("snac_decoder_batch_rows_bucket", 1, le=str(edge))


class Counters:
    """Triton's custom metrics, made on first use of each set of labels."""

    def __init__(self) -> None:
        self._families = {
            name: pb_utils.MetricFamily(name=name, description=text, kind=pb_utils.MetricFamily.COUNTER) for name, text in FAMILIES.items()
        }
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def add(self, name: str, amount: float, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        if key not in self._metrics:
            self._metrics[key] = self._families[name].Metric(labels=labels)
        if amount:
            self._metrics[key].increment(amount)


def _input(request: Any, name: str) -> NDArray[Any]:
    """Triton has checked that no input is missing."""
    tensor: Any = pb_utils.get_input_tensor_by_name(request, name)
    return tensor.as_numpy()


def _values(request: Any, name: str, count: int) -> list[int]:
    """The tensor's numbers, zeros where there are not as many as there must be."""
    values = [int(v) for v in _input(request, name).reshape(-1)]
    return values if len(values) == count else [0] * count


def _speech(request: Any, samples: Any) -> Any:
    """The new samples, with what only passes through."""
    tensors = (("AUDIO", samples[np.newaxis]), *((name, _input(request, name)) for name in ("INDEX", "FINISH_REASON")))
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in tensors])


def _error(code: str, message: str) -> Any:
    """The message carries its code, for a gRPC stream hands on the message alone."""
    kind = pb_utils.TritonError.INVALID_ARG if code == "INVALID_ARGUMENT" else pb_utils.TritonError.INTERNAL
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"[{code}] {message}", kind))
