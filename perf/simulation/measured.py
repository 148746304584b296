"""What the embedded voice costs on this machine, measured part by part on the idle machine."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import codec as codec_costs
import language_model
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
    """codec_settings: as served. Without the costs around a window: only a running server shows those."""
    cores = len(os.sched_getaffinity(0))
    step_s, prompt_token_s = asyncio.run(_language_model(ROOT / "model_repository/orpheus_lm/1/pocket", streams, rounds))
    engine = create_engine(codec_settings, codec_settings.path(ROOT / "model_repository/snac_decoder/1"))
    try:
        seconds = codec_costs.measure({"codec": engine}, [1], rounds=10 * rounds)
    finally:
        engine.close()
    return Costs(
        step_s=step_s,
        step_threads=cores,
        prompt_token_s=prompt_token_s,
        forward_s={size: Curve([(1, statistics.median(taken))]) for (_, size, _), taken in seconds.items()},
        max_rows=1,
        calls=codec_settings.calls,
        window_s=0.0,
        cores=cores,
    )


async def _language_model(folder: Path, streams: Sequence[int], rounds: int) -> tuple[Curve, float]:
    """-> seconds of a step by streams, and for each token of a prompt."""
    engine = OpenVinoEngine(folder, EngineOptions(threads=0, max_streams=max(streams)))
    await engine.start()
    try:
        steps = [(n, statistics.median([await _step_s(engine, n) for _ in range(rounds)])) for n in streams]
        short, long = [statistics.median([await _first_s(engine, n) for _ in range(3 * rounds)]) for n in PROMPT_TOKENS]
    finally:
        await engine.close()
    return Curve(steps), (long - short) / (PROMPT_TOKENS[1] - PROMPT_TOKENS[0])


async def _step_s(engine: OpenVinoEngine, streams: int) -> float:
    times = await language_model.together(engine, streams, TOKENS, vocabulary=language_model.SMALL_VOCABULARY)
    return statistics.mean((of[-1] - of[WARM_TOKENS]) / (len(of) - 1 - WARM_TOKENS) for of in times)


async def _first_s(engine: OpenVinoEngine, prompt_tokens: int) -> float:
    times = await language_model.together(engine, 1, 2, prompt_tokens, language_model.SMALL_VOCABULARY)
    return times[0][0]
