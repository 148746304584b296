"""A stand-in for the speech server behind Triton's real gRPC service: each utterance follows a script.

    with ScriptedTriton({"hello": [Say(), Wait(0.1), Say(finish="stop")]}) as server:
        Client(server.url) ...

It keeps what a test wants to know: every request as it came, every STOP, and how each call ended. Built on gRPC's blocking server, because
a second event loop in the process would disturb a client's (grpc/grpc issue 25364).
"""

from __future__ import annotations

import json
import queue
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc  # pyright: ignore[reportMissingTypeStubs]

protocol: Any = service_pb2
servicer: Any = service_pb2_grpc

DESCRIPTION: dict[str, Any] = {
    "model": "scripted",
    "voices": ["ada", "bob"],
    "sample_rate_hz": 24000,
    "samples_per_frame": 2048,
    "defaults": {"temperature": 0.6},
    "limits": {"max_streams": 4},
}


@dataclass(frozen=True)
class Say:
    """One chunk of samples that all have the value `level`.

    index: None for the next. finish: the finish reason; it comes with Triton's final flag.
    """

    n_samples: int = 2048
    level: int = 8000
    index: int | None = None
    finish: str = ""


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Fail:
    """An error inside the stream. final: whether the request ends with it."""

    message: str
    final: bool = True


@dataclass(frozen=True)
class Abort:
    """The call ends with another status than OK."""

    code: grpc.StatusCode
    details: str


@dataclass(frozen=True)
class Bare:
    """A response without outputs."""


Step = Say | Wait | Fail | Abort | Bare
Script = Sequence[Step]
SPOKEN: Script = (Say(), Say(), Say(finish="stop"))


@dataclass(frozen=True)
class Turns:
    """One script for each request with the same text; the last one stays."""

    scripts: Sequence[Script]


@dataclass(frozen=True)
class Seen:
    """A request as it came: inputs by name, BYTES as str."""

    model: str
    request_id: str
    inputs: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass
class ScriptedTriton:
    """scripts: by TEXT; any other text is spoken in three chunks.

    stop_misses: so many STOPs are answered "not_found" first, as if the stream had not arrived yet. obeys: whether STOP has any effect.
    credentials: for TLS.
    """

    scripts: Mapping[str, Script | Turns] = field(default_factory=dict[str, "Script | Turns"])
    stop_misses: int = 0
    obeys: bool = True
    ready: bool = True
    credentials: grpc.ServerCredentials | None = None
    requests: list[Seen] = field(default_factory=list[Seen])
    stops: list[str] = field(default_factory=list[str])
    # Each call of an utterance: request id and "complete" or "cut", in the order of their ends.
    ends: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __enter__(self) -> ScriptedTriton:
        self._lock = threading.Lock()
        self._stopped: dict[str, threading.Event] = {}
        self._taken: dict[str, int] = defaultdict(int)
        self._closing = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=64))
        servicer.add_GRPCInferenceServiceServicer_to_server(self._servicer(), self._server)
        address = "127.0.0.1:0"
        credentials = self.credentials
        port = self._server.add_secure_port(address, credentials) if credentials else self._server.add_insecure_port(address)
        self.url = f"127.0.0.1:{port}"
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        self._server.stop(grace=1).wait()

    def wait_for_ends(self, n: int, timeout_s: float = 5.0) -> list[tuple[str, str]]:
        """-> `ends` once it has n entries, or after the timeout."""
        until = time.monotonic() + timeout_s
        while len(self.ends) < n and time.monotonic() < until:
            time.sleep(0.01)
        return self.ends

    def _servicer(self) -> Any:
        script = self

        class Service(servicer.GRPCInferenceServiceServicer):
            def ServerLive(self, request: Any, context: Any) -> Any:
                return protocol.ServerLiveResponse(live=True)

            def ServerReady(self, request: Any, context: Any) -> Any:
                return protocol.ServerReadyResponse(ready=script.ready)

            def ModelReady(self, request: Any, context: Any) -> Any:
                return protocol.ModelReadyResponse(ready=script.ready)

            def ServerMetadata(self, request: Any, context: Any) -> Any:
                return protocol.ServerMetadataResponse(name="triton", version="0.scripted")

            def ModelStreamInfer(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:
                return script._stream(request_iterator, context)

        return Service()

    def _stream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """All requests of one call at once, as Triton serves them."""
        spoken: list[str] = []
        complete = threading.Event()

        def ended() -> None:
            self.ends.extend((request_id, "complete" if complete.is_set() else "cut") for request_id in spoken)

        context.add_callback(ended)
        responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        begun: list[threading.Thread] = []

        def serve(seen: Seen) -> None:
            for response in self._serve(seen, context):
                responses.put(response)

        def read() -> None:
            try:
                for request in requests:
                    seen = _seen(request, context)
                    with self._lock:
                        self.requests.append(seen)
                    if seen.model == "orpheus_tts":
                        spoken.append(seen.request_id)
                    begun.append(threading.Thread(target=serve, args=(seen,)))
                    begun[-1].start()
            except Exception:  # the call was cut
                return
            finally:
                for thread in begun:
                    thread.join()
                responses.put(None)

        threading.Thread(target=read).start()
        while (response := responses.get()) is not None:
            if isinstance(response, Abort):
                context.abort(response.code, response.details)
            yield response
        complete.set()

    def _serve(self, seen: Seen, context: Any) -> Iterator[Any]:
        if seen.inputs.get("DESCRIBE"):
            yield _answer(seen.request_id, True, DESCRIPTION=json.dumps(DESCRIPTION))
        elif seen.inputs.get("STOP"):
            yield _answer(seen.request_id, True, FINISH_REASON=self._stop(seen.request_id))
        else:
            yield from self._speak(seen, context)

    def _stop(self, request_id: str) -> str:
        with self._lock:
            self.stops.append(request_id)
            stopped = self._stopped.get(request_id)
            if stopped is None or len(self.stops) <= self.stop_misses:
                return "not_found"
            if self.obeys:
                stopped.set()
            return "cancelled"

    def _speak(self, seen: Seen, context: Any) -> Iterator[Any]:
        text = seen.inputs["TEXT"]
        with self._lock:
            stopped = self._stopped[seen.request_id] = threading.Event()
            steps = self._script(text)
        index = 0
        for step in steps:
            if isinstance(step, Wait):
                until = time.monotonic() + step.seconds
                while time.monotonic() < until and context.is_active() and not self._closing.is_set() and not stopped.wait(0.01):
                    pass
            if stopped.is_set():
                step = Say(0, finish="cancelled")
            if isinstance(step, Say):
                number = index if step.index is None else step.index
                index = number + 1
                samples = np.full(step.n_samples, step.level, "<i2")
                yield _answer(seen.request_id, bool(step.finish), AUDIO=samples, INDEX=np.array([number], "<i4"), FINISH_REASON=step.finish)
            elif isinstance(step, Fail):
                yield _failure(seen.request_id, step)
            elif isinstance(step, Abort):
                yield step
            elif isinstance(step, Bare):
                yield _answer(seen.request_id, False)
            if stopped.is_set():
                break
        with self._lock:
            del self._stopped[seen.request_id]

    def _script(self, text: str) -> Script:
        script = self.scripts.get(text, SPOKEN)
        if not isinstance(script, Turns):
            return script
        number = self._taken[text]
        self._taken[text] += 1
        return script.scripts[min(number, len(script.scripts) - 1)]


def _seen(request: Any, context: Any) -> Seen:
    inputs: dict[str, Any] = {}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        if tensor.datatype == "BYTES":
            inputs[tensor.name] = raw[4:].decode()
        else:
            inputs[tensor.name] = struct.unpack({"FP32": "<f", "INT32": "<i", "INT64": "<q", "BOOL": "<?"}[tensor.datatype], raw)[0]
    return Seen(request.model_name, request.id, inputs, dict(context.invocation_metadata()))


def _answer(request_id: str, final: bool, **outputs: Any) -> Any:
    response = protocol.ModelStreamInferResponse()
    inner = response.infer_response
    inner.id = request_id
    inner.parameters["triton_final_response"].bool_param = final
    for name, value in outputs.items():
        if isinstance(value, str):
            inner.outputs.add(name=name, datatype="BYTES", shape=[1])
            inner.raw_output_contents.append(struct.pack("<I", len(value.encode())) + value.encode())
        else:
            inner.outputs.add(name=name, datatype={2: "INT16", 4: "INT32"}[value.itemsize], shape=list(value.shape))
            inner.raw_output_contents.append(value.tobytes())
    return response


def _failure(request_id: str, step: Fail) -> Any:
    response = protocol.ModelStreamInferResponse(error_message=step.message)
    response.infer_response.id = request_id
    response.infer_response.parameters["triton_final_response"].bool_param = step.final
    return response
