"""OpenVINO GenAI's continuous batching, in a process of its own.

Its `step()` holds Python's global lock from beginning to end (openvino-genai 2026.4.1: a thread that only sleeps and wakes stood
still for a whole step), so inside this process it would stop the event loop and the sender. A process of its own also turns a crash in
native code into an error of the running generations. The two ends talk over a socket pair, one JSON object a line; see `openvino_worker`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .base import EngineError, EngineOptions, Sampling
from .generation import FilledGeneration

log = logging.getLogger(__name__)

EXIT_WITHIN_S = 10.0
MAX_LINE_BYTES = 1 << 24
WORKER = "speech_lm.engines.openvino_worker"


class OpenVinoEngine:
    """folder: `openvino_model.xml` and `.bin` (scripts/export_lm.py), with the checkpoint's `config.json` where its context is limited."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder, self._options = folder, options
        self._running: dict[int, FilledGeneration] = {}
        self._numbers = itertools.count()
        self._max_context_tokens: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failure: EngineError | None = EngineError("the engine has not been started")

    @property
    def max_context_tokens(self) -> int | None:
        return self._max_context_tokens

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _start_worker(theirs, self._folder, self._options)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE_BYTES)
        hello = await self._receive(reader)
        if "ready" not in hello:
            await self.close()
            raise EngineError(hello.get("fatal") or self._obituary())
        self._max_context_tokens = hello["ready"]["max_context_tokens"]
        self._failure = None
        self._reading = asyncio.create_task(self._read(reader))

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> FilledGeneration:
        number = next(self._numbers)
        generation = FilledGeneration(lambda: self._cancel(number))
        if self._failure is not None:
            generation.fail(self._failure)
            return generation
        self._running[number] = generation
        seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        fields = asdict(sampling) | {"stop_ids": sorted(sampling.stop_ids), "seed": seed}
        self._send({"submit": number, "prompt_ids": list(prompt_ids), "sampling": fields})
        return generation

    async def close(self) -> None:
        self._failure = self._failure or EngineError("the engine has been closed")
        for generation in list(self._running.values()):
            generation.abort()
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            await asyncio.to_thread(_end, self._process)
        if self._reading is not None:
            await self._reading

    def _cancel(self, number: int) -> None:
        del self._running[number]
        self._send({"cancel": number})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def _receive(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        """The worker's next message; empty where it has ended."""
        try:
            line = await reader.readline()
        except ConnectionError:
            return {}
        return json.loads(line) if line.endswith(b"\n") else {}

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hand out what each step brought, until the worker ends, for whatever reason; then nobody may be left waiting."""
        message: dict[str, Any] = {}
        try:
            while "step" in (message := await self._receive(reader)):
                for number, ids, reason, error in message["step"]:
                    self._hand_out(number, ids, reason, error)
        finally:
            if self._failure is None:
                if "fatal" not in message and self._process is not None:
                    await asyncio.to_thread(_end, self._process)
                self._failure = EngineError(message.get("fatal") or self._obituary())
                log.error("%s", self._failure)
            for generation in self._running.values():
                generation.fail(self._failure)
            self._running.clear()

    def _hand_out(self, number: int, ids: list[int], reason: str | None, error: str | None) -> None:
        generation = self._running.get(number)
        if generation is None:  # aborted while this was under way
            return
        if ids:
            generation.push(ids)
        if error is not None:
            generation.fail(EngineError(error))
        elif reason is not None:
            generation.finish(reason)
        if generation.ended:
            del self._running[number]

    def _obituary(self) -> str:
        status = None if self._process is None else self._process.poll()
        return f"the OpenVINO process ended unexpectedly (exit status {status})"


def _start_worker(channel: socket.socket, folder: Path, options: EngineOptions) -> subprocess.Popen[bytes]:
    """sys.executable is the interpreter that the running one was found by, also inside Triton's python stub.

    Started in the folder that holds this package: Python looks for modules in the working folder first.
    """
    if not sys.executable:
        raise EngineError("no Python interpreter is known to start the OpenVINO process with; put the server's python3 on PATH")
    arguments = {"channel": channel.fileno(), "folder": str(folder.absolute()), **asdict(options)}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    command = [sys.executable, "-m", WORKER, json.dumps(arguments)]
    return subprocess.Popen(command, pass_fds=[channel.fileno()], stdin=subprocess.DEVNULL, env=environment, cwd=Path(__file__).parents[2])


def _end(process: subprocess.Popen[bytes]) -> None:
    """The worker goes by itself once its channel is closed; where it hangs in a step, it is killed."""
    try:
        process.wait(EXIT_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
