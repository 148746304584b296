"""The process that runs OpenVINO GenAI's ContinuousBatchingPipeline for `OpenVinoEngine`.

    python -m speech_lm.engines.openvino_worker '{"channel": 5, "folder": "...", "threads": 0, "max_streams": 32, "kv_cache_tokens": 0}'

One JSON object a line over the socket whose descriptor is `channel`.
In:  {"submit": n, "prompt_ids": [...], "sampling": {Sampling's fields}}, {"cancel": n}; the end of the stream ends the process.
Out: {"ready": {"max_context_tokens": n}} once, then for every step that brought something {"step": [[n, ids, finish reason, error], ...]};
     {"fatal": "why"} is the last thing said.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

BLOCK_TOKENS = 32
"""Tokens in one block of OpenVINO's paged key-value cache on a processor (openvino.genai, cache manager)."""
CACHE_TOKENS_PER_STREAM = 512
"""Where nobody says how large the cache is: 5 s of speech and its prompt, all streams at once. Should they be longer, OpenVINO suspends
some and computes them again later. Blocks are used in turn, so in time all of them lie in memory (3.7 kB a token, embedded voice)."""
MIN_CACHE_TOKENS = 4096
MAX_STEP_TOKENS = 128
"""A step computes at most so many tokens, prompts included, so a long prompt does not hold up the others. OpenVINO also compiles and keeps
kernels for each number of tokens that occurs, 10 ms and 1.6 MB each with the embedded voice: this bounds them."""
WARM_UP_S = 6.0
"""The most; the embedded voice takes 3 s of processor time."""

Report = list[Any]
"""[number, ids, finish reason or None, error or None]"""


class Channel:
    """Lines over a socket, read without blocking while there is work."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._buffer, self.open = connection, b"", True

    def receive(self, wait: bool) -> Iterator[dict[str, Any]]:
        while self.open and select.select([self._socket], [], [], None if wait else 0)[0]:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            self.open = bool(data)
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            yield from map(json.loads, lines)
            wait = wait and not lines

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self.open = False


@dataclass(frozen=True)
class CacheSize:
    blocks: int

    @classmethod
    def of(cls, kv_cache_tokens: int, max_streams: int) -> CacheSize:
        tokens = kv_cache_tokens or max(MIN_CACHE_TOKENS, CACHE_TOKENS_PER_STREAM * max_streams)
        return cls(-(-tokens // BLOCK_TOKENS))

    @property
    def max_context_tokens(self) -> int:
        """What one generation alone can use; the last block may be half full."""
        return (self.blocks - 1) * BLOCK_TOKENS


class Worker:
    """max_context_tokens: prompt and output of one generation; OpenVINO itself would end a longer one without a word."""

    def __init__(self, pipeline: Any, max_context_tokens: int, channel: Channel) -> None:
        self._pipeline, self._max_context_tokens, self._channel = pipeline, max_context_tokens, channel
        self._handles: dict[int, Any] = {}

    def warm_up(self, streams: int, step_tokens: int, until: float) -> None:
        """Make the kernels before anyone waits for them: batches of `streams` generations down to one, then prompts of up to `step_tokens`
        tokens. Ends when the clock says `until` at the latest: a large model spends more on the work than on kernels.
        """
        sampling: dict[str, Any] = {"temperature": 1.0, "top_p": 0.9, "top_k": 0, "repetition_penalty": 1.1, "seed": 0, "stop_ids": []}
        for length in range(1, streams + 1):
            self._submit(length, [0], sampling | {"max_tokens": length})
        self._work_off(until)
        for length in range(2, step_tokens + 1):
            if time.monotonic() < until:
                self._submit(length, [0] * length, sampling | {"max_tokens": 1})
                self._work_off(until)

    def _work_off(self, until: float) -> None:
        """Step until all is said or time is up."""
        while self._handles and time.monotonic() < until:
            self._pipeline.step()
            for *_, error in self._reports():
                if error is not None:
                    raise RuntimeError(error)
        self._let_go()

    def _let_go(self) -> None:
        """Cancel what runs and have the pipeline forget it; it complains of requests that are left when it goes."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def run(self) -> None:
        """Until the channel closes. A step that raises ends the worker: the pipeline's state is unknown then."""
        while self._channel.open:
            idle = not self._pipeline.has_non_finished_requests()
            refused = [report for command in self._channel.receive(wait=idle) if (report := self._obey(command))]
            if self._pipeline.has_non_finished_requests():
                self._pipeline.step()
            if reports := refused + self._reports():
                self._channel.send({"step": reports})
        self._let_go()

    def _obey(self, command: dict[str, Any]) -> Report | None:
        if "cancel" in command:
            handle = self._handles.pop(command["cancel"], None)
            if handle is not None:
                handle.cancel()
            return None
        number = command["submit"]
        try:
            self._submit(number, command["prompt_ids"], command["sampling"])
        except Exception as error:
            return [number, [], None, f"the request was refused: {error}"]
        return None

    def _submit(self, number: int, prompt_ids: list[int], sampling: dict[str, Any]) -> None:
        if len(prompt_ids) + sampling["max_tokens"] > self._max_context_tokens:
            raise ValueError(f"prompt and max_tokens together exceed the {self._max_context_tokens} tokens of the key-value cache")
        prompt = openvino().Tensor(np.array([prompt_ids], np.int64))
        self._handles[number] = self._pipeline.add_request(number, prompt, generation_config(sampling))

    def _reports(self) -> list[Report]:
        """What every generation has brought since the last time; the ended ones are let go."""
        reports: list[Report] = []
        for number, handle in list(self._handles.items()):
            ids: list[int] = []
            reason = error = None
            while handle.can_read():
                for output in handle.read().values():
                    ids += output.generated_ids
                    reason = {"STOP": "stop", "LENGTH": "length"}.get(output.finish_reason.name)
            status = handle.get_status().name
            if status == "IGNORED":
                error = "the key-value cache is too small for this generation"
            if ids or status != "RUNNING":
                reports.append([number, ids, reason, error])
            if status != "RUNNING":
                del self._handles[number]
        return reports


def openvino() -> Any:
    """Importing it sends an event about that to its maker (openvino/tools/ovc/__init__.py, 2026.4.1); without this package it cannot."""
    cast("dict[str, Any]", sys.modules)["openvino_telemetry"] = None
    import openvino

    return openvino


def openvino_genai() -> Any:
    openvino()
    import openvino_genai

    return openvino_genai


def generation_config(sampling: dict[str, Any]) -> Any:
    """OpenVINO's penalty covers prompt and output, its temperature comes before top-p: both as in transformers. (tried, 2026.4.1)"""
    config = openvino_genai().GenerationConfig()
    config.max_new_tokens = sampling["max_tokens"]
    config.repetition_penalty = sampling["repetition_penalty"]
    config.rng_seed = sampling["seed"]
    config.do_sample = sampling["temperature"] > 0
    if config.do_sample:
        config.temperature = sampling["temperature"]
        config.top_p = sampling["top_p"]
        if sampling["top_k"]:
            config.top_k = sampling["top_k"]
    # An end-of-text id is required, and without one of its own the pipeline puts in -1 and then refuses it.
    stops = set(sampling["stop_ids"])
    config.ignore_eos = not stops
    config.stop_token_ids = stops or {0}
    config.set_eos_token_id(min(config.stop_token_ids))
    return config


def load_pipeline(folder: Path, threads: int, max_streams: int, cache_blocks: int) -> Any:
    for name in ("openvino_model.xml", "openvino_model.bin"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} holds no {name}; scripts/export_lm.py makes one")
    genai = openvino_genai()
    scheduler = genai.SchedulerConfig()
    scheduler.num_kv_blocks = cache_blocks
    scheduler.max_num_seqs = max_streams
    scheduler.max_num_batched_tokens = max(MAX_STEP_TOKENS, max_streams)
    return genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads} if threads else {})


def trained_context(config: Path) -> int:
    """max_position_embeddings of the checkpoint's config, where it lies beside the model."""
    return json.loads(config.read_text(encoding="utf-8"))["max_position_embeddings"] if config.is_file() else sys.maxsize


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the whole group; the server decides when this one ends
    arguments = json.loads(sys.argv[1])
    channel = Channel(socket.socket(fileno=arguments["channel"]))
    folder, max_streams = Path(arguments["folder"]), arguments["max_streams"]
    try:
        cache = CacheSize.of(arguments["kv_cache_tokens"], max_streams)
        max_context_tokens = min(cache.max_context_tokens, trained_context(folder / "config.json"))
        worker = Worker(load_pipeline(folder, arguments["threads"], max_streams, cache.blocks), max_context_tokens, channel)
        longest = max_context_tokens - 1
        worker.warm_up(min(max_streams, longest), min(MAX_STEP_TOKENS, longest), time.monotonic() + WARM_UP_S)
        channel.send({"ready": {"max_context_tokens": max_context_tokens}})
        worker.run()
    except Exception as error:
        channel.send({"fatal": f"OpenVINO failed: {error}"})
        raise


if __name__ == "__main__":
    main()
