"""orpheus say"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from numpy.typing import NDArray

from ..audio import RawWriter, SampleFormat, WavWriter
from ..errors import InvalidRequest
from ..sync_client import Client, SpeechStream
from .arguments import client_options, speech_options
from .exit_codes import ExitCode
from .report import Progress, summary


def say(arguments: argparse.Namespace) -> ExitCode:
    text = _text(arguments.text)
    sample_format: SampleFormat = "float32" if arguments.float else "int16"
    with Client(**client_options(arguments)) as client, _Output(arguments.out, arguments.raw, sample_format) as output:
        speech = client.stream(text, **speech_options(arguments))
        _receive(speech, output, Progress(sys.stderr, arguments.quiet))
    _report(speech, arguments)
    return ExitCode.OK


def _text(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"standard input is not valid UTF-8 (byte {error.start})") from None


def _receive(stream: SpeechStream, output: _Output, progress: Progress) -> None:
    try:
        with stream as speech:
            for chunk in speech:
                output.write(chunk.samples, speech.sample_rate_hz)
                progress.update(speech)
    finally:
        progress.close()


def _report(speech: SpeechStream, arguments: argparse.Namespace) -> None:
    target, file = ("standard output", sys.stderr) if arguments.out == "-" else (arguments.out, sys.stdout)
    if arguments.json:
        facts = {
            "out": target,
            "request_id": speech.request_id,
            "finish_reason": speech.finish_reason,
            "sample_rate_hz": speech.sample_rate_hz,
        }
        print(json.dumps({**facts, **speech.timings.to_dict()}), file=file)
    elif not arguments.quiet:
        print(summary(target, speech.finish_reason, speech.timings), file=file)


class _Output:
    """The audio's destination. A file is made with the first samples, so that a refused request leaves none and spoils none."""

    def __init__(self, target: str, raw: bool, sample_format: SampleFormat) -> None:
        self._target, self._raw = target, raw
        self._format: SampleFormat = sample_format
        self._writer: RawWriter | None = None

    def write(self, samples: NDArray[np.int16], sample_rate_hz: int) -> None:
        if self._writer is None:
            to_stdout = self._target == "-"
            target = sys.stdout.buffer if to_stdout else self._target
            if self._raw:
                self._writer = RawWriter(target, self._format)
            else:
                self._writer = WavWriter(target, sample_rate_hz, self._format, exact_sizes=not to_stdout)
        self._writer.write(samples)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
