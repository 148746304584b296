"""What an utterance was like for its listener: pure arithmetic on arrival times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# -50 dBFS of int16: below it a sample counts as silence.
AUDIBLE = round(10 ** (-50 / 20) * 2**15)


@dataclass(frozen=True)
class Underrun:
    """The listener had heard `at_s` of the audio and waited `duration_s` for more."""

    at_s: float
    duration_s: float


@dataclass(frozen=True)
class Timings:
    """Times in seconds since the stream was opened. A chunk without samples is left out.

    total_s: until the last thing that came.
    first_audible_sample: its position in the stream, None where all is silence (below -50 dBFS).
    """

    sample_rate_hz: int
    chunk_arrivals_s: tuple[float, ...]
    chunk_samples: tuple[int, ...]
    first_audible_sample: int | None
    total_s: float

    @property
    def audio_s(self) -> float:
        return sum(self.chunk_samples) / self.sample_rate_hz

    @property
    def time_to_first_audio_s(self) -> float | None:
        """Until the first sample was here."""
        return self.chunk_arrivals_s[0] if self.chunk_arrivals_s else None

    @property
    def time_to_first_audible_s(self) -> float | None:
        """Until a listener who starts at the first chunk hears the first sample that is no silence."""
        if self.first_audible_sample is None:
            return None
        position = 0
        for begins_s, n_samples in zip(self._playback_s(0.0), self.chunk_samples, strict=True):
            if self.first_audible_sample < position + n_samples:
                return begins_s + (self.first_audible_sample - position) / self.sample_rate_hz
            position += n_samples
        return None

    @property
    def real_time_factor(self) -> float | None:
        """Time taken over audio received: below 1 is faster than speech. Says nothing about underruns."""
        return self.total_s / self.audio_s if self.audio_s else None

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Between each two chunks."""
        return tuple(later - earlier for earlier, later in zip(self.chunk_arrivals_s, self.chunk_arrivals_s[1:], strict=False))

    def underruns(self, start_delay_s: float = 0.0) -> tuple[Underrun, ...]:
        """For a listener who starts `start_delay_s` after the first chunk's arrival and then plays without a pause while there is audio."""
        found: list[Underrun] = []
        heard_s = free_s = 0.0
        for number, (begins_s, n_samples) in enumerate(zip(self._playback_s(start_delay_s), self.chunk_samples, strict=True)):
            if number and begins_s > free_s:
                found.append(Underrun(heard_s, begins_s - free_s))
            duration_s = n_samples / self.sample_rate_hz
            heard_s += duration_s
            free_s = begins_s + duration_s
        return tuple(found)

    def _playback_s(self, start_delay_s: float) -> list[float]:
        """When each chunk begins to sound."""
        begins: list[float] = []
        free_s = self.chunk_arrivals_s[0] + start_delay_s if self.chunk_arrivals_s else 0.0
        for arrival_s, n_samples in zip(self.chunk_arrivals_s, self.chunk_samples, strict=True):
            begins.append(max(arrival_s, free_s))
            free_s = begins[-1] + n_samples / self.sample_rate_hz
        return begins

    def to_dict(self) -> dict[str, object]:
        """For JSON; units in the names."""
        underruns = self.underruns()
        return {
            "time_to_first_audio_s": self.time_to_first_audio_s,
            "time_to_first_audible_s": self.time_to_first_audible_s,
            "total_s": self.total_s,
            "audio_s": self.audio_s,
            "real_time_factor": self.real_time_factor,
            "chunks": len(self.chunk_samples),
            "chunk_arrivals_s": list(self.chunk_arrivals_s),
            "chunk_samples": list(self.chunk_samples),
            "longest_gap_s": max(self.gaps_s, default=None),
            "underruns": len(underruns),
            "underrun_s": sum(underrun.duration_s for underrun in underruns),
        }


class Timeline:
    """Collects arrivals while a stream runs. Times are readings of one monotonic clock, in seconds."""

    def __init__(self, started_s: float, sample_rate_hz: int) -> None:
        self.started_s = started_s
        self.last_s = started_s
        self._sample_rate_hz = sample_rate_hz
        self._arrivals_s: list[float] = []
        self._samples: list[int] = []
        self._first_audible: int | None = None

    def add(self, samples: NDArray[np.int16], at_s: float) -> None:
        """A chunk has arrived."""
        self.last_s = at_s
        if not len(samples):
            return
        if self._first_audible is None:
            audible = (samples >= AUDIBLE) | (samples <= -AUDIBLE)
            if audible.any():
                self._first_audible = sum(self._samples) + int(audible.argmax())
        self._arrivals_s.append(at_s - self.started_s)
        self._samples.append(len(samples))

    @property
    def has_audio(self) -> bool:
        return bool(self._samples)

    @property
    def is_audible(self) -> bool:
        return self._first_audible is not None

    def timings(self) -> Timings:
        return Timings(
            sample_rate_hz=self._sample_rate_hz,
            chunk_arrivals_s=tuple(self._arrivals_s),
            chunk_samples=tuple(self._samples),
            first_audible_sample=self._first_audible,
            total_s=self.last_s - self.started_s,
        )
