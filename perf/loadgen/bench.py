"""One server under one kind of traffic: a measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orpheus_client import SpeechOptions
from orpheus_client.measuring import summarise

from loadgen import driver, results, triton_statistics
from loadgen.driver import Job, Load, Record
from loadgen.texts import drawn
from loadgen.traffic import start_times_s


@dataclass(frozen=True)
class Traffic:
    """concurrency: of a closed loop, else 0; rate_per_s: of an open one."""

    arrivals: str
    concurrency: int = 0
    rate_per_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.concurrency} callers" if self.concurrency else f"{self.arrivals}, {self.rate_per_s:.3g}/s"


@dataclass(frozen=True)
class Point:
    """One measurement."""

    summary: dict[str, Any]
    row: dict[str, Any]
    raw: list[dict[str, Any]]

    @property
    def share_dry(self) -> float:
        """Of the streams, those that ran dry or failed."""
        failed = sum(self.summary["failures"].values())
        return (self.summary["streams_with_underruns"] + failed) / (self.summary["complete"] + failed)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"row": self.row, "summary": self.summary, "streams": self.raw}

    @property
    def mean_audio_s(self) -> float:
        return self.summary["audio_s"] / max(1, self.summary["complete"])


class Bench:
    """Measures one server with texts in a random order that the seed repeats."""

    def __init__(self, url: str, texts: Sequence[str], options: SpeechOptions, seed: int, processes: int, start_delay_s: float) -> None:
        self.url, self.texts, self.options, self.seed = url, texts, options, seed
        self.processes, self.start_delay_s = processes, start_delay_s

    def warm_up(self, at_a_time: int) -> None:
        self._run(Traffic("closed", at_a_time), 2 * at_a_time)

    def measure(self, traffic: Traffic, n: int) -> Point:
        return self.observe({"traffic": str(traffic)}, lambda: self._run(traffic, n))

    def observe(self, label: Mapping[str, Any], run: Callable[[], tuple[list[Record], float]]) -> Point:
        """What `run` does to the server: the records of its streams, and the seconds that all took. `label` begins the row."""
        before = triton_statistics.counts(self.url)
        records, wall_s = run()
        statistics = triton_statistics.difference(before, triton_statistics.counts(self.url))
        summary = summarise([record.run for record in records], wall_s, self.start_delay_s)
        summary["longest_lateness_s"] = max(record.late_s for record in records)
        summary["listeners_at_a_time"] = summary["audio_s"] / wall_s
        summary["triton"] = statistics
        return Point(summary, results.row(label, summary, statistics), results.raw(records, self.start_delay_s))

    def _run(self, traffic: Traffic, n: int) -> tuple[list[Record], float]:
        texts = drawn(self.texts, n, self.seed)
        if traffic.concurrency:
            jobs = [Job(text) for text in texts]
        else:
            times = start_times_s(traffic.arrivals, traffic.rate_per_s, n, self.seed)
            jobs = [Job(text, due_s) for text, due_s in zip(texts, times, strict=True)]
        return driver.run(Load(self.url, jobs, traffic.concurrency, self.options), self.processes)
