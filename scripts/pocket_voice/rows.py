"""The language model's training rows, drawn in batches of like length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from pocket_voice.layout import SLOTS
from pocket_voice.prompt import AUDIO_BASE, CONTROLS_IN_PROMPT, END_OF_SPEECH, PAD, prompt_ids

POOL = 512  # utterances sorted by length together


@dataclass(frozen=True)
class Row:
    prompt: list[int]
    audio: npt.NDArray[np.int64]  # [n_frames * 7], with slot offsets
    spoken: npt.NDArray[np.int64]  # [n_frames * 7], position in the prompt of the character that sounds

    def __len__(self) -> int:
        return len(self.prompt) + len(self.audio) + 1


class Batch(NamedTuple):
    ids: torch.Tensor  # int64 [batch, time]; prompts padded on the left to text_length
    targets: torch.Tensor  # int64 [batch, time - text_length + 1]; -1 where nothing is asked
    spoken: torch.Tensor  # int64, the same shape: the text position that sounds, -1 where nothing is asked
    text_length: int


def load_rows(paths: list[Path], table: dict[str, int], codebook_size: int) -> list[Row]:
    rows: list[Row] = []
    offsets = AUDIO_BASE + codebook_size * np.arange(SLOTS)
    for path in paths:
        shard = np.load(path)
        codes, spoken = shard["codes"].astype(np.int64) + offsets, shard["spoken"].astype(np.int64)
        ends = np.cumsum(shard["frames"])
        for text, end, n in zip(shard["phonemes"], ends, shard["frames"], strict=True):
            prompt = prompt_ids(str(text), table)
            if len(prompt) == len(text) + CONTROLS_IN_PROMPT:  # else the positions in `spoken` do not hold
                rows.append(Row(prompt, codes[end - n : end].reshape(-1), spoken[end - n : end].reshape(-1) + 1))
    return rows


def grouped(rows: list[Row], tokens: int, rng: np.random.Generator) -> Iterator[list[Row]]:
    """Endless groups of at most `tokens` ids with their padding (a longer row comes alone); each pass in a new order."""
    while True:
        order = rng.permutation(len(rows))
        groups: list[list[Row]] = []
        for start in range(0, len(order), POOL):
            group: list[Row] = []
            for row in sorted((rows[i] for i in order[start : start + POOL]), key=len):
                if group and len(row) * (len(group) + 1) > tokens:
                    groups.append(group)
                    group = []
                group.append(row)
            groups.append(group)
        for i in rng.permutation(len(groups)):
            yield groups[i]


def collate(group: list[Row]) -> Batch:
    text_length = max(len(row.prompt) for row in group)
    audio_length = max(len(row.audio) for row in group) + 1
    ids = np.full((len(group), text_length + audio_length - 1), PAD)
    targets = np.full((len(group), audio_length), -1)
    spoken = np.full((len(group), audio_length), -1)
    for i, row in enumerate(group):
        left, n = text_length - len(row.prompt), len(row.audio)
        ids[i, left:text_length] = row.prompt
        ids[i, text_length : text_length + n] = row.audio
        targets[i, :n] = row.audio
        targets[i, n] = END_OF_SPEECH
        spoken[i, :n] = row.spoken + left
    return Batch(torch.from_numpy(ids), torch.from_numpy(targets), torch.from_numpy(spoken), text_length)
