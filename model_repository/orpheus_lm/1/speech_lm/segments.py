"""Long text in pieces that a speech model speaks well: cut at sentence ends, else at clauses, else at words; nothing is lost.

A cut falls only where there is white space (or, in an endless run of letters, between two characters), so numbers such as "8,848.86",
times and abbreviations stay whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest

# Words that carry a period without ending a sentence, lower case, without the last period.
ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr rev hon gen col lt sgt capt gov sen rep pres no nos vs etc inc ltd co corp dept est fig vol pp al approx
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ave blvd rd mt ft min max tel ext
    a.m p.m e.g i.e u.s u.k
    """.split()  # noqa: SIM905
)

_GAP = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？]+[\"'”’»)\]]*$")
_CLAUSE_END = re.compile(r"[,;:—–、，；：][\"'”’»)\]]*$")
_OPENING = "\"'“‘«(["


def split_text(text: str, max_chars: int) -> list[str]:
    """Segments of at most max_chars characters, in order; whole sentences are packed together while they fit.

    text: white space already collapsed to single spaces. Joined again, the segments hold every character of the text that is no space.
    """
    segments: list[str] = []
    for sentence in _pieces(text, ends_sentence):
        if segments and len(segments[-1]) + 1 + len(sentence) <= max_chars:
            segments[-1] += " " + sentence
        else:
            segments += [sentence] if len(sentence) <= max_chars else _split_sentence(sentence, max_chars)
    return segments


def ends_sentence(word: str, following: str) -> bool:
    """Whether a sentence ends after `word`, given the word that follows."""
    if not _SENTENCE_END.search(word):
        return False
    bare = word.rstrip("\"'”’»)]").lstrip(_OPENING)
    start = following.lstrip(_OPENING)
    if start[:1].islower():
        return False
    if not bare.endswith(".") or bare.endswith(".."):
        return True
    stem = bare[:-1]
    initial = len(stem) == 1 and stem.isupper()
    return not initial and stem.lower() not in ABBREVIATIONS


def _pieces(text: str, ends_after: Callable[[str, str], bool]) -> list[str]:
    words = [w for w in _GAP.split(text) if w]
    pieces: list[list[str]] = [[]]
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        pieces[-1].append(word)
        if following and ends_after(word, following):
            pieces.append([])
    return [" ".join(p) for p in pieces if p]


def _split_sentence(sentence: str, max_chars: int) -> list[str]:
    """Greedy: as many clauses as fit, else as many words as fit, else characters."""
    pieces = _pieces(sentence, lambda word, _: bool(_CLAUSE_END.search(word)))
    if len(pieces) == 1:
        pieces = sentence.split(" ")
    if len(pieces) == 1:
        return [sentence[at : at + max_chars] for at in range(0, len(sentence), max_chars)]
    segments: list[str] = []
    for piece in pieces:
        if segments and len(segments[-1]) + 1 + len(piece) <= max_chars:
            segments[-1] += " " + piece
        else:
            segments += [piece] if len(piece) <= max_chars else _split_sentence(piece, max_chars)
    return segments
