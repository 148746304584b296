from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from speech_lm.segments import split_text


def without_spaces(text: str) -> str:
    return "".join(text.split())


@given(st.text(min_size=1, max_size=400), st.integers(5, 60))
def test_nothing_is_lost_and_no_segment_is_too_long(text: str, most: int) -> None:
    text = " ".join(text.split())
    segments = split_text(text, most)
    assert without_spaces("".join(segments)) == without_spaces(text)
    assert all(0 < len(s) <= most for s in segments)


def test_short_text_is_one_segment() -> None:
    assert split_text("One. Two. Three.", 100) == ["One. Two. Three."]


def test_sentences_are_packed_whole() -> None:
    assert split_text("The first one. The second one. The third one.", 32) == ["The first one. The second one.", "The third one."]


@pytest.mark.parametrize(
    "sentence",
    [
        "The peak is 8,848.86 meters (29,031.7 feet) high",
        "Then Dr. Sharma arrived at 9:30 a.m. and left",
        "It was J. R. Smith vs. Mr. Jones at no. 5 St. James St. again",
        "Use e.g. version 2.51 or approx. 3.0 of it",
        "Wait ... what did he say",
    ],
)
def test_no_cut_inside_a_sentence(sentence: str) -> None:
    other = "This is a sentence before it."
    assert split_text(f"{other} {sentence}. {other}", max(len(sentence), len(other)) + 2) == [other, sentence + ".", other]


@pytest.mark.parametrize("end", [".", "!", "?", '."', "?)", "…", ".”"])
def test_a_cut_after_each_kind_of_sentence_end(end: str) -> None:
    assert split_text(f"He went home{end} She stayed there", 20) == [f"He went home{end}", "She stayed there"]


def test_a_long_sentence_is_cut_at_clauses_then_at_words() -> None:
    assert split_text("When it rains, we stay at home, and we read.", 20) == ["When it rains,", "we stay at home,", "and we read."]
    assert split_text("one two three four five six", 12) == ["one two", "three four", "five six"]


def test_a_thousand_letters_without_a_space() -> None:
    assert [len(s) for s in split_text("a" * 1000, 300)] == [300, 300, 300, 100]


@pytest.mark.parametrize("characters", [2_000, 20_000])
def test_long_texts(characters: int) -> None:
    text = ("The quick brown fox jumps over the lazy dog. " * (characters // 45 + 1))[:characters].strip()
    segments = split_text(text, 180)
    assert " ".join(segments) == text
    assert all(s.endswith(".") for s in segments[:-1])
