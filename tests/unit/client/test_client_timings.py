"""Arithmetic on invented arrival times."""

from __future__ import annotations

import numpy as np
import pytest
from orpheus_client.timings import AUDIBLE, Timeline, Timings

RATE_HZ = 1000


def timings(*chunks: tuple[float, int], total_s: float = 9.0, first_audible: int | None = 0) -> Timings:
    """chunks: arrival in seconds and number of samples."""
    return Timings(RATE_HZ, tuple(at_s for at_s, _ in chunks), tuple(n for _, n in chunks), first_audible, total_s)


def test_a_late_chunk_is_an_underrun_though_the_stream_is_faster_than_real_time() -> None:
    heard = timings((0.1, 500), (0.2, 500), (1.5, 2000), total_s=1.5)
    assert heard.real_time_factor == pytest.approx(0.5)
    (underrun,) = heard.underruns()
    assert (underrun.at_s, underrun.duration_s) == (pytest.approx(1.0), pytest.approx(0.4))


def test_chunks_in_time_are_no_underrun() -> None:
    assert timings((0.1, 500), (0.59, 500), (1.09, 500)).underruns() == ()


def test_the_listener_resumes_where_it_stood() -> None:
    """After the first wait everything is played later, so that a second chunk with the same lateness is in time."""
    assert len(timings((0.0, 100), (0.3, 100), (0.35, 100)).underruns()) == 1


def test_each_gap_is_counted() -> None:
    waits = timings((0.0, 100), (0.2, 100), (0.5, 100)).underruns()
    assert [wait.at_s for wait in waits] == pytest.approx([0.1, 0.2])
    assert [wait.duration_s for wait in waits] == pytest.approx([0.1, 0.2])


def test_a_listener_who_starts_later_waits_less() -> None:
    late = timings((0.0, 100), (0.15, 100))
    assert len(late.underruns()) == 1
    assert late.underruns(start_delay_s=0.06) == ()


def test_figures_of_a_stream() -> None:
    heard = timings((0.25, 400), (0.5, 600), total_s=0.75)
    assert heard.time_to_first_audio_s == 0.25
    assert heard.audio_s == pytest.approx(1.0)
    assert heard.real_time_factor == pytest.approx(0.75)
    assert heard.gaps_s == (0.25,)


def test_the_first_audible_sample_is_timed_as_it_is_heard() -> None:
    in_first = timings((0.5, 100), (0.55, 100), first_audible=40)
    assert in_first.time_to_first_audible_s == pytest.approx(0.54)
    after_underrun = timings((0.5, 100), (0.8, 100), first_audible=150)
    assert after_underrun.time_to_first_audible_s == pytest.approx(0.85)


def test_nothing_has_no_figures() -> None:
    nothing = timings(first_audible=None)
    assert nothing.time_to_first_audio_s is None
    assert nothing.time_to_first_audible_s is None
    assert nothing.real_time_factor is None
    assert nothing.underruns() == ()
    assert nothing.to_dict()["longest_gap_s"] is None


def test_the_timeline_counts_from_its_start_and_leaves_out_empty_chunks() -> None:
    timeline = Timeline(100.0, RATE_HZ)
    timeline.add(np.zeros(30, np.int16), 100.5)
    timeline.add(np.zeros(0, np.int16), 100.75)
    timeline.add(np.array([0, -AUDIBLE], np.int16), 101.0)
    timeline.last_s = 101.5
    heard = timeline.timings()
    assert heard.chunk_arrivals_s == (0.5, 1.0)
    assert heard.chunk_samples == (30, 2)
    assert heard.first_audible_sample == 31
    assert heard.total_s == 1.5


@pytest.mark.parametrize(("value", "audible"), [(0, False), (AUDIBLE - 1, False), (AUDIBLE, True), (-AUDIBLE, True), (-(2**15), True)])
def test_what_is_audible(value: int, audible: bool) -> None:
    timeline = Timeline(0.0, RATE_HZ)
    timeline.add(np.array([value], np.int16), 1.0)
    assert timeline.is_audible is audible
