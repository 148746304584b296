"""What the user sees while an utterance runs and after it."""

from __future__ import annotations

import time
from typing import TextIO

from ..sync_client import SpeechStream
from ..timings import Timings

REDRAW_S = 0.1
LINE_S = 2.0


class Progress:
    """One line that is redrawn on a terminal, a new line now and then elsewhere."""

    def __init__(self, file: TextIO, quiet: bool) -> None:
        self._file, self._quiet = file, quiet
        self._terminal = file.isatty()
        self._next_s = 0.0
        self._drawn = False

    def update(self, speech: SpeechStream) -> None:
        now_s = time.monotonic()
        if self._quiet or now_s < self._next_s:
            return
        self._next_s = now_s + (REDRAW_S if self._terminal else LINE_S)
        timings = speech.timings
        first = milliseconds(timings.time_to_first_audio_s)
        line = f"{timings.audio_s:6.2f} s of audio after {timings.total_s:5.2f} s, first after {first}, {len(timings.chunk_samples)} chunks"
        self._file.write(f"\r{line}\x1b[K" if self._terminal else f"{line}\n")
        self._file.flush()
        self._drawn = True

    def close(self) -> None:
        """Leave no half line behind."""
        if self._terminal and self._drawn:
            self._file.write("\r\x1b[K")
            self._file.flush()


def summary(target: str, finish_reason: str, timings: Timings) -> str:
    ending = {"stop": "complete", "length": "cut at its token limit"}.get(finish_reason, finish_reason)
    underruns = timings.underruns()
    waited = f" ({milliseconds(sum(underrun.duration_s for underrun in underruns))} in all)" if underruns else ""
    factor = timings.real_time_factor
    return (
        f"{target}: {timings.audio_s:.2f} s of audio in {len(timings.chunk_samples)} chunks, {ending}\n"
        f"time to first audio {milliseconds(timings.time_to_first_audio_s)}, to the first audible sample "
        f"{milliseconds(timings.time_to_first_audible_s)}\n"
        f"total {timings.total_s:.2f} s, real-time factor {'-' if factor is None else f'{factor:.3f}'}, underruns {len(underruns)}{waited}"
    )


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.0f} ms"
