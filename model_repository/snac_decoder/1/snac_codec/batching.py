"""A batch of windows of any streams: equal shapes together, never padded, since padding changes a non-causal codec's audio."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed

import numpy as np
from numpy.typing import NDArray

from .decoder import Decoder
from .pcm import to_int16
from .window import Window


def group_by_shape(windows: Sequence[Window], max_rows: int) -> Iterator[list[int]]:
    """Indices of windows to decode together: one length and one wanted part, at most max_rows, in order of arrival. Those without new
    samples are left out."""
    by_shape: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for index, window in enumerate(windows):
        if window.n_samples:
            by_shape[window.n_frames, window.first_sample, window.n_samples].append(index)
    for indices in by_shape.values():
        for at in range(0, len(indices), max_rows):
            yield indices[at : at + max_rows]


def decode_windows(
    decoder: Decoder, windows: Sequence[Window], max_rows: int, pool: Executor
) -> Iterator[tuple[int, NDArray[np.int16] | Exception]]:
    """Each window's index with its new samples, int16 [n_samples], or with the error that its forward raised, as soon as there is one or
    the other.

    pool: runs the forwards. Side by side on one core each they end sooner than one after another on all.
    """
    for index, window in enumerate(windows):
        if not window.n_samples:
            yield index, np.zeros(0, np.int16)
    forwards = {pool.submit(_decode_rows, decoder, [windows[i] for i in rows]): rows for rows in group_by_shape(windows, max_rows)}
    for forward in as_completed(forwards):
        rows, error = forwards[forward], forward.exception()
        if isinstance(error, Exception):
            yield from ((i, error) for i in rows)
        else:
            yield from zip(rows, forward.result(), strict=True)


def _decode_rows(decoder: Decoder, windows: list[Window]) -> list[NDArray[np.int16]]:
    """windows of one shape."""
    codes = np.stack([w.codes for w in windows])
    positions = np.array([w.first_frame for w in windows], np.int64)
    audio = decoder.decode(codes, positions, windows[0].first_sample, windows[0].n_samples)
    return [to_int16(row) for row in audio]
