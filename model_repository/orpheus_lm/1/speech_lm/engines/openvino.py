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
WORKER = "speech_lm.engines.openvino_worker"


class OpenVinoEngine:
    """folder: `openvino_model.xml` and `.bin` (scripts/export_lm.py), with the checkpoint's `config.json` where its context is limited.

    When the process dies, every running generation raises, and a new process is started; until it is ready, new ones raise too.
    """

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder, self._options = folder, options
        self._running: dict[int, FilledGeneration] = {}
        self._numbers = itertools.count()
        self._max_context_tokens: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None
        self._failure: EngineError | None = EngineError("the engine has not been started")
        self._closing = False

    @property
    def max_context_tokens(self) -> int | None:
        return self._max_context_tokens

    @property
    def worker_pid(self) -> int | None:
        """Of the process that runs the model."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        try:
            reader = await self._launch()
        except BaseException:
            await self.close()
            raise
        self._serving = asyncio.create_task(self._serve(reader))

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
        self._closing, self._failure = True, EngineError("the engine has been closed")
        for generation in list(self._running.values()):
            generation.abort()
        await self._bury()
        if self._serving is not None:
            await self._serving

    async def _launch(self) -> asyncio.StreamReader:
        """Start a worker and wait until it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _start_worker(theirs, self._folder, self._options)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        hello = await _receive(reader)
        if "ready" not in hello:
            raise EngineError(hello.get("fatal") or f"the OpenVINO process ended before it was ready ({await self._bury()})")
        self._max_context_tokens = hello["ready"]["max_context_tokens"]
        if not self._closing:
            self._failure = None
        return reader

    async def _bury(self) -> str:
        """Let the worker go, and wait until it is gone; -> how it ended."""
        if self._writer is not None:
            self._writer.close()
        return "not started" if self._process is None else await asyncio.to_thread(_end, self._process)

    async def _serve(self, reader: asyncio.StreamReader | None) -> None:
        """One worker after another: none is expected to end, and one that does not get ready has no successor."""
        while reader is not None:
            last = await self._hand_out_until_the_end(reader)
            ending = await self._bury()
            if self._closing:
                return
            self._failure = EngineError(last.get("fatal") or f"the OpenVINO process ended unexpectedly ({ending})")
            log.error("%s; starting another", self._failure)
            for generation in self._running.values():
                generation.fail(self._failure)
            self._running.clear()
            try:
                reader = await self._launch()
            except EngineError as error:
                self._failure, reader = error, None
                log.error("%s; giving up", error)

    async def _hand_out_until_the_end(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        """What each step brought goes to its generation; -> the worker's last words, empty where it had none."""
        while "step" in (message := await _receive(reader)):
            for number, ids, reason, error in message["step"]:
                self._hand_out(number, ids, reason, error)
        return message

    def _cancel(self, number: int) -> None:
        if self._running.pop(number, None) is not None:
            self._send({"cancel": number})

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

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


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The worker's next message; empty where it has ended."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return {}
    return json.loads(line) if line.endswith(b"\n") else {}


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


def _end(process: subprocess.Popen[bytes]) -> str:
    """The worker goes by itself once its channel is closed; where it hangs in a step, it is killed."""
    try:
        status = process.wait(EXIT_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    return f"exit status {status}" if status >= 0 else f"signal {-status}"
