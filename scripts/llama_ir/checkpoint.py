"""Reads safetensors files, one or many, without loading them: tensors are views of mapped files.

Format: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data
(huggingface/safetensors, README). A sharded checkpoint lists its files in `model.safetensors.index.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BFLOAT16 = "BF16"
BLOCK_NUMBERS = 1 << 22
_NUMPY = {"F32": np.float32, "F16": np.float16, BFLOAT16: np.uint16}


@dataclass(frozen=True)
class _Entry:
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError where the folder holds no safetensors checkpoint."""
        index = folder / "model.safetensors.index.json"
        if index.exists():
            files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        else:
            files = ["model.safetensors"]
        self._entries: dict[str, _Entry] = {}
        for name in files:
            self._read_header(folder / name)

    def _read_header(self, file: Path) -> None:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header: dict[str, Any] = json.loads(stream.read(length))
        for name, tensor in header.items():
            if name != "__metadata__":
                self._entries[name] = _Entry(file, tensor["dtype"], tuple(tensor["shape"]), 8 + length + tensor["data_offsets"][0])

    def blocks(self, name: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
        """The tensor in float32, a few rows at a time, so that a large one never lies in memory twice.

        Raises ValueError for a missing one, another shape or another kind of number.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ValueError(f"the checkpoint has no tensor {name}")
        if entry.shape != shape:
            raise ValueError(f"{name} has the shape {list(entry.shape)}; config.json says {list(shape)}")
        if entry.dtype not in _NUMPY:
            raise ValueError(f"{name} is stored as {entry.dtype}; supported are {', '.join(_NUMPY)}")
        mapped = np.memmap(entry.file, _NUMPY[entry.dtype], "r", entry.offset, entry.shape)
        rows = max(1, BLOCK_NUMBERS * shape[0] // mapped.size)
        for begin in range(0, shape[0], rows):
            block = mapped[begin : begin + rows]
            if entry.dtype == BFLOAT16:  # the upper half of a float32
                yield (block.astype(np.uint32) << 16).view(np.float32)
            else:
                yield block.astype(np.float32)
