"""What the embedded voice costs on this machine, measured part by part on the idle machine."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import codec as codec_costs
import language_model
from embedded.running import RunningServer
from embedded.vitals import cpu_s, metric
from loadgen.machine import ROOT
from snac_codec.engines import create_engine
from snac_codec.settings import Settings as CodecSettings
from speech_lm.engines import EngineOptions
from speech_lm.engines.openvino import OpenVinoEngine

from simulation.costs import Costs, Curve

TOKENS = 120
WARM_TOKENS = 20
"""Not counted: streams that start together read their prompts in these steps."""
PROMPT_TOKENS = (8, 128)


def measured_costs(codec_settings: CodecSettings, streams: Sequence[int], rounds: int) -> Costs:
    """codec_settings: as served. Without what a window costs around the models: only a running server shows that."""
    return asyncio.run(_measured_costs(codec_settings, streams, rounds))


async def _measured_costs(codec_settings: CodecSettings, streams: Sequence[int], rounds: int) -> Costs:
    cores = len(os.sched_getaffinity(0))
    codec = create_engine(codec_settings, codec_settings.path(ROOT / "model_repository/snac_decoder/1"))
    model = OpenVinoEngine(ROOT / "model_repository/orpheus_lm/1/pocket", EngineOptions(threads=0, max_streams=max(streams)))
    await model.start()
    try:
        step_s = Curve([(n, statistics.median([await _step_s(model, n) for _ in range(rounds)])) for n in streams])
        short, long = [statistics.median([await _first_s(model, n) for _ in range(3 * rounds)]) for n in PROMPT_TOKENS]
        seconds = codec_costs.measure({"codec": codec}, [1], rounds=10 * rounds)
        forward_s = {size: Curve([(1, statistics.median(taken))]) for (_, size, _), taken in seconds.items()}
    finally:
        await model.close()
        codec.close()
    return Costs(
        step_s=step_s,
        step_threads=cores,
        prompt_token_s=(long - short) / (PROMPT_TOKENS[1] - PROMPT_TOKENS[0]),
        forward_s=forward_s,
        max_rows=1,
        calls=codec_settings.calls,
        window_core_s=0.0,
        window_delay_s=0.0,
        cores=cores,
    )


async def _step_s(engine: OpenVinoEngine, streams: int) -> float:
    times = await language_model.together(engine, streams, TOKENS, vocabulary=language_model.SMALL_VOCABULARY)
    return statistics.mean((of[-1] - of[WARM_TOKENS]) / (len(of) - 1 - WARM_TOKENS) for of in times)


async def _first_s(engine: OpenVinoEngine, prompt_tokens: int) -> float:
    times = await language_model.together(engine, 1, 2, prompt_tokens, language_model.SMALL_VOCABULARY)
    return times[0][0]


@dataclass
class Surroundings:
    """What windows cost beside both models while a server runs: processor time of tritonserver, of the language model's stub (its engine
    has a process of its own) and of this process, which listens. The codec's stub is left out, for its time is nearly all decoding."""

    server: RunningServer
    _begun: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self._begun = self._now()

    def core_s_per_window(self) -> float:
        """Since `begin`."""
        (core_s, windows), (core_s_then, windows_then) = self._now(), self._begun
        return (core_s - core_s_then) / (windows - windows_then)

    def _now(self) -> tuple[float, float]:
        stubs = [pid for pid in self.server.stub_pids() if b"/orpheus_lm/" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return sum(map(cpu_s, [self.server.pid, *stubs, os.getpid()])), metric(self.server, "orpheus_lm_windows_total")
