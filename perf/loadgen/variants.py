"""The same service served in different ways, measured one after another on the same machine with the same traffic."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedded.repository import copy_repository
from embedded.running import REPOSITORY, RunningServer
from orpheus_client import SpeechOptions

from loadgen import exactness
from loadgen.bench import Bench, Traffic
from loadgen.exactness import Audio
from loadgen.target import own_server

DECODE_SECONDS = "snac_decoder_decode_seconds_total"


@dataclass(frozen=True)
class Variant:
    """prepare: what is changed in a copy of the model repository, whose folder it is given; environment: settings of the server's models;
    options: of every request. lost_at_start: samples that this way of streaming never sends."""

    label: str
    prepare: Callable[[Path], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    options: SpeechOptions = field(default_factory=lambda: SpeechOptions())
    lost_at_start: int = 0


@dataclass(frozen=True)
class Plan:
    """What every variant is asked to do. streams: in each point, and at least twice its concurrency."""

    texts: Sequence[str]
    concurrency: Sequence[int]
    streams: int
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """rows: one for each concurrency. spoken: a few texts, read alone with fixed seeds."""

    rows: list[dict[str, Any]]
    streams: list[list[dict[str, Any]]]
    spoken: list[Audio]


@contextmanager
def served(variant: Variant) -> Generator[RunningServer]:
    with tempfile.TemporaryDirectory() as folder:
        repository = REPOSITORY
        if variant.prepare is not None:
            repository = copy_repository(REPOSITORY, Path(folder) / "models")
            variant.prepare(repository)
        with own_server(repository, variant.environment) as server:
            yield server


def measured(variant: Variant, plan: Plan) -> Measured:
    """On a server of its own. `codec_s_per_audio_s` in a row: seconds in the codec's forwards for a second of what the listeners got."""
    rows: list[dict[str, Any]] = []
    streams: list[list[dict[str, Any]]] = []
    with served(variant) as server:
        spoken = exactness.spoken(server.grpc_url, plan.texts, variant.options)
        bench = Bench(server.grpc_url, plan.texts, variant.options, plan.seed, processes=1, start_delay_s=0.0)
        for concurrency in plan.concurrency:
            bench.warm_up(concurrency)
            before = server.metrics()[DECODE_SECONDS]
            point = bench.measure(Traffic("closed", concurrency), max(plan.streams, 2 * concurrency))
            decoding_s = server.metrics()[DECODE_SECONDS] - before
            audio_s = point.summary["audio_s"]
            cost = round(decoding_s / audio_s, 4) if audio_s else None
            rows.append({"variant": variant.label, "concurrency": concurrency, **point.row, "codec_s_per_audio_s": cost})
            streams.append(point.raw)
            print(f"{variant.label}, {concurrency} at a time: {point.summary['complete']} streams", file=sys.stderr)
    return Measured(rows, streams, spoken)
