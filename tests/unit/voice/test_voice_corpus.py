"""What the embedded voice is taught to say: filled templates, tidied sentences, nothing unwanted."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocket_voice import corpus, phrases
from pocket_voice.listening import HARD_SENTENCES, SENTENCES, read_sentences


@pytest.fixture(scope="module")
def unwanted() -> re.Pattern[str]:
    return corpus.unwanted_pattern()


@pytest.mark.parametrize("template", phrases.templates())
def test_every_template_is_filled_and_kept(template: str, unwanted: re.Pattern[str]) -> None:
    for seed in range(20):
        text = phrases.fill(template, random.Random(seed))
        assert "{" not in text
        assert corpus.tidy(text, unwanted)


def test_unknown_slot_is_an_error() -> None:
    with pytest.raises(KeyError):
        phrases.fill("Hello {nobody}.", random.Random(0))


def test_same_seed_same_phrase() -> None:
    assert [phrases.bare_phrase(random.Random(7)) for _ in range(3)] == [phrases.bare_phrase(random.Random(7))] * 3


@pytest.mark.parametrize(
    ("raw", "tidied"),
    [
        ("a quiet street", "A quiet street."),
        ("how far is it (in miles)?", "How far is it?"),
        ("the end of the story; - Mark Twain", "The end of the story."),
        ("see you at 9 p.m..", "See you at 9 p.m."),
        ("", None),
        ("caf\u00e9 au lait", None),
        ("x" * 400, None),
    ],
)
def test_tidy(raw: str, tidied: str | None, unwanted: re.Pattern[str]) -> None:
    assert corpus.tidy(raw, unwanted) == tidied


@pytest.mark.parametrize("text", ["He was murdered.", "A bloody fool.", "Weapons-grade plutonium.", "STUPID idea."])
def test_unwanted_words_are_found_in_any_case_and_ending(text: str, unwanted: re.Pattern[str]) -> None:
    assert corpus.tidy(text, unwanted) is None


@pytest.mark.parametrize("text", ["Grass grows fast.", "The class assembled.", "Go farther.", "A demonstration."])
def test_words_that_only_contain_an_unwanted_one_stay(text: str, unwanted: re.Pattern[str]) -> None:
    assert corpus.tidy(text, unwanted) == text


@given(st.integers(0, 2**32))
def test_joined_utterances_keep_to_their_length(seed: int) -> None:
    found = corpus.joined(["One short sentence.", "Another one, a little longer."], random.Random(seed), 3, 60, 120)
    assert all(60 <= len(text) <= 120 for text in found)


@pytest.mark.parametrize("path", [SENTENCES, HARD_SENTENCES], ids=["plain", "hard"])
def test_test_sentences_have_words_and_none_unwanted(path: Path, unwanted: re.Pattern[str]) -> None:
    sentences = read_sentences(path)
    assert len(sentences) >= 20
    for text, said in sentences:
        assert said, text
        assert not unwanted.search(text), text
