"""When the load generator's callers call, and what they say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loadgen.texts import MIXES, drawn, texts_of
from loadgen.traffic import start_times_s


def test_constant_callers_come_evenly() -> None:
    assert start_times_s("constant", 4.0, 5, 0) == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


@given(st.integers(1, 50), st.integers(0, 5))
def test_poisson_callers_come_in_order_and_the_seed_repeats_them(n: int, seed: int) -> None:
    times = start_times_s("poisson", 2.0, n, seed)
    assert len(times) == n
    assert times[0] == 0
    assert times == sorted(times) == start_times_s("poisson", 2.0, n, seed)


def test_poisson_pauses_are_exponential_with_the_mean_of_the_rate() -> None:
    pauses = np.diff(start_times_s("poisson", 5.0, 20_001, 1))
    assert pauses.mean() == pytest.approx(0.2, rel=0.03)
    assert pauses.std() == pytest.approx(0.2, rel=0.03), "an exponential's deviation is its mean"


@pytest.mark.parametrize(("arrivals", "rate"), [("constant", 0.0), ("poisson", -1.0), ("bursty", 1.0)])
def test_impossible_traffic_is_refused(arrivals: str, rate: float) -> None:
    with pytest.raises(ValueError, match=r"rate|arrivals"):
        start_times_s(arrivals, rate, 3, 0)


@given(st.sampled_from(sorted(MIXES)), st.integers(1, 90), st.integers(0, 3))
def test_texts_are_drawn_evenly(mix: str, n: int, seed: int) -> None:
    texts = [f"{number} {text}" for number, text in enumerate(MIXES[mix])]
    order = drawn(texts, n, seed)
    counts = Counter(dict.fromkeys(texts, 0))
    counts.update(order)
    assert len(order) == n
    assert max(counts.values()) - min(counts.values()) <= 1
    assert order == drawn(texts, n, seed)


def test_texts_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("One.\n\n  Two. \n")
    assert texts_of(f"{tmp_path / 'lines.txt'}") == ["One.", "Two."]


def test_no_texts_are_an_error_that_names_the_mixes(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match="holds no text"):
        texts_of(f"{tmp_path / 'empty.txt'}")
    with pytest.raises(ValueError, match="mixed"):
        texts_of("nonsense")
