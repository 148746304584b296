"""The simulation: its clock, its cores, and our service run on both."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from capacity import shipped_model
from loadgen.bench import Traffic
from loadgen.find_max import Limits, find_max
from loadgen.texts import texts_of
from simulation import virtual_time
from simulation.bench import Model, SimulatedBench
from simulation.cores import Cores
from simulation.costs import Costs, Curve
from simulation.paper import GPUS, LAYER_WEIGHTS, forward_s, paper_costs, step_s

SIZES = (2, 4, 8, 16, 32)
COSTS = Costs(
    step_s=Curve([(1, 0.001), (16, 0.003)]), step_threads=2, prompt_token_s=0.00001,
    forward_s={size: Curve([(1, 0.002 + 0.0004 * size)]) for size in SIZES}, max_rows=1, calls=2,
    window_core_s=0.001, window_delay_s=0.002, cores=2,
)  # fmt: skip
TEXTS = texts_of("mixed")


@pytest.fixture(scope="module")
def model() -> Model:
    return replace(shipped_model(), frames_per_prompt_token=0.7)


def test_an_hour_passes_at_once() -> None:
    async def wait() -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(asyncio.sleep(60 * minute) for minute in range(61)))
        return asyncio.get_running_loop().time() - began

    assert virtual_time.run(wait()) == pytest.approx(3600, abs=0.001)


def test_a_standstill_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.StandstillError):
        virtual_time.run(wait())


def ends(count: int, works: list[tuple[float, float, int]]) -> list[float]:
    """works: (start, seconds, threads) -> when each ended, on `count` cores."""

    async def all_of_it() -> list[float]:
        cores, loop = Cores(count), asyncio.get_running_loop()
        began = loop.time()

        async def one(start: float, seconds: float, threads: int) -> float:
            await asyncio.sleep(start)
            await cores.work(seconds, threads)
            return loop.time() - began

        return list(await asyncio.gather(*(one(*work) for work in works)))

    return virtual_time.run(all_of_it())


@pytest.mark.parametrize(
    ("count", "works", "expected"),
    [
        (1, [(0, 1, 1), (0, 1, 1)], [2, 2]),
        (2, [(0, 1, 1), (0, 1, 1)], [1, 1]),
        (2, [(0, 1, 2), (0, 1, 1)], [1.5, 1.5]),
        (1, [(0, 2, 1), (1, 0.5, 1)], [2.5, 2]),
        (2, [(0, 1, 2), (2, 1, 1)], [1, 3]),
        (1, [(0, 0, 1)], [0]),
    ],
)
def test_cores_are_shared_fairly(count: int, works: list[tuple[float, float, int]], expected: list[float]) -> None:
    assert ends(count, works) == pytest.approx(expected, abs=1e-5)


def test_curves_go_on_beyond_their_last_point() -> None:
    curve = Curve([(1, 1.0), (2, 1.5), (4, 3.5)])
    assert [curve(n) for n in (1, 3, 4, 6)] == pytest.approx([1.0, 2.5, 3.5, 5.5])
    assert Curve([(1, 0.2)])(9) == pytest.approx(0.2)


def test_one_caller_hears_what_the_costs_say(model: Model) -> None:
    """The first chunk: prompt and 21 tokens, the way to the codec, its queue, one tile, the way back. Alone, so to the microsecond."""
    bench = SimulatedBench(model, COSTS, ["Yes."])
    prompt = len(model.frontend.read("Yes.", model.voice.voices[0]).prompt_ids)
    [stream] = bench.measure(Traffic("closed", 1), 1).raw
    expected = 0.00001 * prompt + 21 * 0.001 + 0.0015 + 0.015 + (0.002 + 0.0004 * 2) + 0.0015
    # The next frames are being made meanwhile, on cores that the codec shares: it may take longer, by no more than its own time.
    assert 0 <= stream["first_audio_ms"] / 1000 - expected < 0.005
    assert stream["audio_ms"] == pytest.approx(1000 * model.frames_of(prompt) * model.voice.codec.frame_s, abs=0.1)


@pytest.mark.parametrize("callers", [1, 4, 8])
def test_nobody_runs_dry_while_the_machine_is_fast_enough(model: Model, callers: int) -> None:
    point = SimulatedBench(model, COSTS, TEXTS).measure(Traffic("closed", callers), 64)
    assert point.summary["failures"] == {}
    assert point.summary["streams_with_underruns"] == 0
    assert point.summary["times_real_time"] > callers


def test_the_same_simulation_gives_the_same_figures(model: Model) -> None:
    def rows() -> list[object]:
        return [SimulatedBench(model, COSTS, TEXTS).measure(Traffic(kind, 0, 2.0), 24).row for kind in ("constant", "poisson")]

    assert rows() == rows()


def test_a_slower_machine_carries_fewer(model: Model) -> None:
    def most(slower: float) -> int:
        costs = replace(COSTS, step_s=Curve([(n, slower * s) for n, s in COSTS.step_s.points]))
        bench = SimulatedBench(model, costs, TEXTS)
        mean_audio_s = bench.measure(Traffic("closed", 1), len(TEXTS)).mean_audio_s
        return find_max(bench, "poisson", mean_audio_s, Limits(0.01, 0.3), 48, 16)[0]

    assert most(1) > most(6) > 0


def test_paper_figures_follow_the_data_sheet() -> None:
    h100 = next(gpu for gpu in GPUS if gpu.name == "H100 SXM")
    assert LAYER_WEIGHTS == 28 * (2 * 3072 * 3072 + 2 * 3072 * 1024 + 3 * 3072 * 8192)
    assert 0.0025 < step_s(h100, 1) < 0.0035, "3.8 GB at 60 % of 3.35 TB/s and a millisecond"
    assert step_s(h100, 256) > step_s(h100, 1)
    assert forward_s(h100, 32, 32) > forward_s(h100, 2, 1)
    assert paper_costs(h100).tile_sizes == SIZES
