"""Word errors by kind, and the training budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocket_voice.budget import Budget, RateShape
from pocket_voice.listening import WordErrors, compare, words

WORDS = st.lists(st.sampled_from("abcd"), max_size=8)


@pytest.mark.parametrize(
    ("said", "heard", "replaced", "skipped", "added", "repeated"),
    [
        ("the old clock", "the old clock", 0, 0, 0, 0),
        ("the old clock", "the cold clock", 1, 0, 0, 0),
        ("the old clock", "the clock", 0, 1, 0, 0),
        ("the old clock", "the old old clock", 0, 0, 1, 1),
        ("the old clock", "the old clock stopped", 0, 0, 1, 0),
        ("the old clock", "", 0, 3, 0, 0),
    ],
)
def test_errors_by_kind(said: str, heard: str, replaced: int, skipped: int, added: int, repeated: int) -> None:
    found = compare(said.split(), heard.split())
    assert (found.spoken, found.replaced, found.skipped, found.added, found.repeated) == (3, replaced, skipped, added, repeated)


@given(WORDS, WORDS)
def test_errors_are_a_distance(a: list[str], b: list[str]) -> None:
    found = compare(a, b)
    assert found.errors == compare(b, a).errors
    assert abs(len(a) - len(b)) <= found.errors <= max(len(a), len(b))
    assert found.added - found.skipped == len(b) - len(a)
    assert (found.errors == 0) == (a == b)


def test_counts_add_up() -> None:
    total = WordErrors()
    total.add(compare(["a", "b"], ["a"]))
    total.add(compare(["a"], ["a", "a"]))
    assert (total.spoken, total.skipped, total.added, total.repeated) == (3, 1, 1, 1)
    assert total.rate == pytest.approx(2 / 3)


def test_words_drop_case_and_punctuation() -> None:
    assert words("Don't stop, it's 9!") == ["don't", "stop", "it's"]


def test_rate_rises_stays_and_falls_to_nothing() -> None:
    shape = RateShape(warmup_steps=10, decay_share=0.5)
    assert shape.scale(4, 0.0) == 0.5
    assert shape.scale(100, 0.4) == 1.0
    assert shape.scale(100, 0.75) == 0.5
    assert shape.scale(100, 1.0) == 0.0


def test_budget_counts_neither_the_first_step_nor_the_pause_before_it() -> None:
    budget = Budget(minutes=1, used_s=30)
    assert budget.share == 0.5
    budget.tick()
    assert budget.share == 0.5
    budget.tick()
    assert budget.share > 0.5
