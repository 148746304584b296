"""A batch of windows of any streams: equal shapes together, never padded, since padding changes a non-causal codec's audio."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .decoder import Decoder
from .pcm import to_int16
from .window import Window


def group_by_shape(windows: Sequence[Window], max_rows: int) -> Iterator[list[int]]:
    """Indices of windows to decode together: one length and one wanted part, at most max_rows, in order of arrival. Those without new samples are left out."""
    by_shape: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for index, window in enumerate(windows):
        if window.n_samples:
            by_shape[window.n_frames, window.first_sample, window.n_samples].append(index)
    for indices in by_shape.values():
        for at in range(0, len(indices), max_rows):
            yield indices[at : at + max_rows]


def decode_windows(decoder: Decoder, windows: Sequence[Window], max_rows: int) -> Iterator[tuple[int, NDArray[np.int16] | Exception]]:
    """Each window's index with its new samples, int16 [n_samples], or with the error that its forward raised, as soon as there is one or the other."""
    for index, window in enumerate(windows):
        if not window.n_samples:
            yield index, np.zeros(0, np.int16)
    for rows in group_by_shape(windows, max_rows):
        first = windows[rows[0]]
        codes = np.stack([windows[i].codes for i in rows])
        positions = np.array([windows[i].first_frame for i in rows], np.int64)
        try:
            audio = decoder.decode(codes, positions, first.first_sample, first.n_samples)
        except Exception as error:
            yield from ((i, error) for i in rows)
            continue
        yield from ((i, to_int16(audio[row])) for row, i in enumerate(rows))
