"""Filling a batch of tiles up to one of a few row counts: rows do not touch each other, so the added ones change nothing."""

from __future__ import annotations

from ..tiles import TileInputs


def row_counts(max_rows: int) -> tuple[int, ...]:
    """Powers of two up to max_rows, and max_rows."""
    return (*(1 << i for i in range(max_rows.bit_length()) if 1 << i < max_rows), max_rows)


def pad_rows(inputs: TileInputs, counts: tuple[int, ...]) -> TileInputs:
    """inputs, of at most counts[-1] rows, with copies of the last row up to the next count."""
    n = len(inputs.position)
    extra = next(count for count in counts if count >= n) - n
    if not extra:
        return inputs
    rows = [*range(n), *[n - 1] * extra]
    return TileInputs(inputs.codes[rows], inputs.position[rows], inputs.valid[rows])
