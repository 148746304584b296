"""How much of what was said a recogniser understands. The recogniser is pocketsphinx (PyPI, BSD), with its own US English model."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pocketsphinx import Decoder
from scipy.signal import resample_poly

RECOGNISER_RATE_HZ = 16_000  # two thirds of the voice's 24 kHz
SENTENCES = Path(__file__).with_name("test_sentences.txt")  # the corpus holds none of them
HARD_SENTENCES = Path(__file__).with_name("hard_sentences.txt")  # single words, digits, times, long ones
PEAK, SILENCE_SAMPLES = 0.7, 4800


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def read_sentences(path: Path) -> list[tuple[str, list[str]]]:
    """-> text and the words it is read as: the second column where there is one (digits and times), else the text's own."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(fields[0], words(fields[-1])) for fields in lines]


@dataclass
class WordErrors:
    """Counts over one or more utterances; errors = replaced + skipped + added."""

    spoken: int = 0
    replaced: int = 0
    skipped: int = 0
    added: int = 0
    repeated: int = 0  # of the added: equal to the word before or after
    kinds: Counter[str] = field(default_factory=Counter[str])

    @property
    def errors(self) -> int:
        return self.replaced + self.skipped + self.added

    @property
    def rate(self) -> float:
        return self.errors / max(1, self.spoken)

    def add(self, other: WordErrors) -> None:
        for name in ("spoken", "replaced", "skipped", "added", "repeated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds += other.kinds


def compare(said: list[str], heard: list[str]) -> WordErrors:
    """The cheapest alignment of two word lists (Levenshtein), told by kinds of errors."""
    cost = np.zeros((len(said) + 1, len(heard) + 1), int)
    cost[:, 0], cost[0] = np.arange(len(said) + 1), np.arange(len(heard) + 1)
    for i, word in enumerate(said, 1):
        for j, other in enumerate(heard, 1):
            cost[i, j] = min(cost[i - 1, j - 1] + (word != other), cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    found = WordErrors(spoken=len(said))
    i, j = len(said), len(heard)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + (said[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            if said[i] != heard[j]:
                found.replaced += 1
                found.kinds[f"{said[i]} > {heard[j]}"] += 1
        elif i and cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
            found.skipped += 1
            found.kinds[f"{said[i]} > -"] += 1
        else:
            j -= 1
            found.added += 1
            found.kinds[f"- > {heard[j]}"] += 1
            found.repeated += heard[j] in (heard[j - 1 : j] + heard[j + 1 : j + 2])
    return found


class Recogniser:
    """Use one for each voice: it adapts to what it has heard before."""

    def __init__(self) -> None:
        self._decoder = Decoder(samprate=RECOGNISER_RATE_HZ, loglevel="FATAL")

    def __call__(self, audio: npt.NDArray[np.floating[Any]]) -> list[str]:
        """float [n] at 24 kHz, any level -> words."""
        peak = max(1e-3, float(np.abs(audio).max(initial=0)))
        loud = np.pad(audio / peak * PEAK, (SILENCE_SAMPLES, SILENCE_SAMPLES))
        samples = (resample_poly(loud, 2, 3) * 32767).clip(-32768, 32767).astype(np.int16)
        self._decoder.start_utt()
        self._decoder.process_raw(samples.tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return words(found.hypstr) if found else []
