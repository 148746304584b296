"""Triton's adapter of `speech_lm`: the only file of this model that knows pb_utils.

Three threads: Triton's calls `execute`, which only parses; the event loop runs the streams; the sender makes the blocking round trips to
the server (responses, metrics, polls for cancelled calls) one at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import triton_python_backend_utils as pb_utils
from speech_lm.acks import AckTable
from speech_lm.engines import EngineOptions, create_engine
from speech_lm.errors import InvalidRequest, SpeechError
from speech_lm.frontends import load_frontend
from speech_lm.guard import start_guard
from speech_lm.metrics import FAMILIES, Metrics
from speech_lm.requests import DescribeRequest, SpeechRequest, StopRequest, parse_request
from speech_lm.service import SpeechService
from speech_lm.settings import Settings, load_settings
from speech_lm.stream import Chunk, SpeechStream
from speech_lm.voice import Voice, load_voice

T = TypeVar("T")
PUBLISH_EVERY_S = 0.5
CANCEL_POLL_S = 0.1
INPUTS = (
    "TEXT", "VOICE", "TEMPERATURE", "TOP_P", "TOP_K", "REPETITION_PENALTY", "MAX_TOKENS", "SEED", "CHUNK_FRAMES",
    "STOP", "DESCRIBE", "STANDALONE",
)  # fmt: skip


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        start_guard()
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")
        parameters = {key: value["string_value"] for key, value in json.loads(args["model_config"])["parameters"].items()}
        folder = Path(args["model_repository"]) / args["model_version"]
        self._settings: Settings = load_settings(parameters)
        self._voice: Voice = load_voice(self._settings.path(folder))
        self._metrics = Metrics()
        self._sender = Sender(self._metrics)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="streams", daemon=True)
        self._thread.start()
        self._service: SpeechService = self._run(self._start())
        self._sender.start(self._loop)

    async def _start(self) -> SpeechService:
        """Load, check and warm everything; the model is not ready before this is done."""
        settings, voice = self._settings, self._voice
        frontend = load_frontend(voice)
        generations = settings.max_streams * (1 + settings.segments_ahead)
        engine = create_engine(settings.engine, voice.folder, EngineOptions(threads=settings.threads, max_streams=generations))
        await engine.start()
        return SpeechService(voice, frontend, engine, settings, self._metrics, AckTable(settings.max_streams))

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            sink = ResponseSink(self._sender, request.get_response_sender())
            try:
                given = ((name, pb_utils.get_input_tensor_by_name(request, name)) for name in INPUTS)
                tensors = {name: tensor.as_numpy() for name, tensor in given if tensor is not None}
                wanted = parse_request(
                    request.request_id(), tensors, self._voice, self._settings.max_text_characters, self._settings.max_chunk_frames
                )
            except Exception as error:
                self._metrics.outcomes["invalid"] += isinstance(error, InvalidRequest)
                sink.fail(error)
                continue
            self._loop.call_soon_threadsafe(self._answer, wanted, sink)

    def _answer(self, wanted: SpeechRequest | StopRequest | DescribeRequest, sink: ResponseSink) -> None:
        """On the event loop."""
        try:
            if isinstance(wanted, SpeechRequest):
                stream = self._service.speak(wanted, sink)
                if stream is not None and wanted.standalone:
                    self._sender.watch(sink.triton, stream)
            elif isinstance(wanted, StopRequest):
                found = self._service.stop(wanted.request_id)
                sink.answer("FINISH_REASON", "cancelled" if found else "not_found")
            else:
                sink.answer("DESCRIPTION", self._service.describe())
        except Exception as error:
            logging.getLogger("orpheus_lm").exception("a request failed")
            sink.fail(error)

    def finalize(self) -> None:
        self._run(self._service.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._sender.stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class ResponseSink:
    """One request's responses, handed to the sender thread."""

    def __init__(self, sender: Sender, triton: Any) -> None:
        self._sender, self.triton = sender, triton

    def send(self, chunk: Chunk) -> None:
        window = chunk.window
        tensors = {
            "CODES": window.codes,
            "EMIT": np.array([window.first_sample, window.n_samples], np.int32),
            "FIRST_FRAME": np.array([window.first_frame], np.int64),
            "TICKET": np.array(chunk.ticket, np.int64),
            "INDEX": np.array([chunk.index], np.int32),
            "FINISH_REASON": np.array([chunk.finish_reason.encode()], object),
        }
        self._sender.put(self.triton, tensors, None, chunk.is_last)

    def answer(self, name: str, value: str) -> None:
        """The only response of a request that is no stream."""
        self._sender.put(self.triton, {name: np.array([value.encode()], object)}, None, True)

    def fail(self, error: BaseException) -> None:
        """The message carries its code, for a gRPC stream hands on the message alone."""
        code = error.code if isinstance(error, SpeechError) else "INTERNAL"
        message = str(error) if isinstance(error, SpeechError) else f"the server failed: {type(error).__name__}"
        self._sender.put(self.triton, {}, _triton_error(code, message), True)


class Sender:
    """A thread for everything that blocks on the server. A response that cannot be delivered must not stop those of others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._queue: queue.SimpleQueue[tuple[Any, dict[str, Any], Any, bool] | None] = queue.SimpleQueue()
        self._watched: dict[Any, SpeechStream] = {}
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)
        self._publisher = Publisher()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    def put(self, triton: Any, tensors: dict[str, Any], error: Any, final: bool) -> None:
        self._queue.put((triton, tensors, error, final))

    def watch(self, triton: Any, stream: SpeechStream) -> None:
        """Cancel this stream when its call is cancelled. Only where no ensemble stands between: an ensemble does not pass that on."""
        self._watched[triton] = stream

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        polled = published = time.monotonic()
        while True:
            try:
                item = self._queue.get(timeout=CANCEL_POLL_S)
                if item is None:
                    return
                self._deliver(*item)
            except queue.Empty:
                pass
            except Exception:
                logging.getLogger("orpheus_lm").exception("a response was not delivered")
            now = time.monotonic()
            if now - polled > CANCEL_POLL_S:
                polled = now
                self._poll_cancelled()
            if now - published > PUBLISH_EVERY_S:
                published = now
                self._publisher.publish(self._metrics)

    def _deliver(self, triton: Any, tensors: dict[str, Any], error: Any, final: bool) -> None:
        if final:
            self._watched.pop(triton, None)
        response = pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in tensors.items()], error)
        triton.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0)

    def _poll_cancelled(self) -> None:
        for triton, stream in list(self._watched.items()):
            if triton.is_cancelled():
                self._watched.pop(triton, None)
                self._loop.call_soon_threadsafe(stream.cancel, "call_cancelled")


def _triton_error(code: str, message: str) -> Any:
    """Triton puts TritonError into pb_utils only after this file has been imported."""
    known = {"INVALID_ARGUMENT": pb_utils.TritonError.INVALID_ARG, "UNAVAILABLE": pb_utils.TritonError.UNAVAILABLE}
    return pb_utils.TritonError(f"[{code}] {message}", known.get(code, pb_utils.TritonError.INTERNAL))


class Publisher:
    """Brings the plain counters into Triton's metrics."""

    def __init__(self) -> None:
        kinds = {"counter": pb_utils.MetricFamily.COUNTER, "gauge": pb_utils.MetricFamily.GAUGE}
        self._families = {
            name: pb_utils.MetricFamily(name=name, description=text, kind=kinds[kind]) for name, (kind, text) in FAMILIES.items()
        }
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Any, float]] = {}

    def publish(self, metrics: Metrics) -> None:
        for sample in metrics.samples():
            key = (sample.name, sample.labels)
            metric, before = self._metrics.get(key) or (self._families[sample.name].Metric(labels=dict(sample.labels)), 0.0)
            if FAMILIES[sample.name][0] == "gauge":
                metric.set(sample.value)
            elif sample.value != before:
                metric.increment(sample.value - before)
            self._metrics[key] = (metric, sample.value)
