"""Utterances spoken to be measured, and the figures of many of them: for `orpheus bench-lite` and load generators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .async_client import AsyncClient
from .errors import OrpheusError
from .speech import SpeechOptions
from .timings import Timings

# Three times the pace of conversation (150 English words a minute, 6 characters each): a shorter utterance cannot hold its text.
IMPOSSIBLE_CHARACTERS_PER_S = 45
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class Run:
    """One utterance. failure: the kind of its error, "" where it is whole."""

    timings: Timings
    failure: str


async def speak(client: AsyncClient, text: str, options: SpeechOptions) -> Run:
    """The whole utterance, listened to as fast as it comes."""
    error_kind = ""
    async with client.stream(text, **options) as speech:
        try:
            async for _ in speech:
                pass
        except OrpheusError as error:
            error_kind = type(error).__name__
    return judged(speech.timings, text, error_kind, speech.finish_reason)


def judged(timings: Timings, text: str, error_kind: str, finish_reason: str) -> Run:
    """A stream that ended without an error has failed all the same where its listener cannot have heard the whole text.

    error_kind: the error's class, "" for none; a silent stream is one already (EmptySpeech).
    """
    failure = error_kind
    if not failure and finish_reason != "stop":
        failure = f"Ended:{finish_reason}"
    if not failure and timings.audio_s * IMPOSSIBLE_CHARACTERS_PER_S < len(text):
        failure = "TooShort"
    return Run(timings, failure)


def summarise(runs: Sequence[Run], wall_s: float, start_delay_s: float = 0.0) -> dict[str, Any]:
    """Figures of the whole utterances, times in seconds; failed ones are counted by kind and measured nowhere.

    wall_s: from the first start to the last end; start_delay_s: how long a listener waits after the first chunk before playing.
    """
    whole = [run.timings for run in runs if not run.failure]
    underruns = [timings.underruns(start_delay_s) for timings in whole]
    audio_s = sum(timings.audio_s for timings in whole)
    return {
        "complete": len(whole),
        "failures": dict(Counter(run.failure for run in runs if run.failure)),
        "time_to_first_audio_s": spread(timings.time_to_first_audio_s for timings in whole),
        "time_to_first_audible_s": spread(timings.time_to_first_audible_s for timings in whole),
        "real_time_factor": spread(timings.real_time_factor for timings in whole),
        "gap_s": spread(gap for timings in whole for gap in timings.gaps_s),
        "longest_gap_s": spread(max(timings.gaps_s, default=None) for timings in whole),
        "start_delay_s": start_delay_s,
        "streams_with_underruns": sum(1 for of_stream in underruns if of_stream),
        "underruns": sum(map(len, underruns)),
        "underrun_s": sum(underrun.duration_s for of_stream in underruns for underrun in of_stream),
        "audio_s": audio_s,
        "wall_s": wall_s,
        "times_real_time": audio_s / wall_s if wall_s else None,
    }


def spread(values: Iterable[float | None]) -> dict[str, float] | None:
    """p50, p90, p95, p99 and max of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    of = {f"p{percent}": float(value) for percent, value in zip(PERCENTILES, np.percentile(known, PERCENTILES), strict=True)}
    return {**of, "max": max(known)}
