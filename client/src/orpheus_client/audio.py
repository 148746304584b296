"""PCM and WAV.

WAV layout: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0" (RIFF), and its 1994 update: float samples
need a longer format chunk and a fact chunk. A WAV that is streamed cannot know its size: its size fields hold 0xFFFFFFFF, which readers
take as "until the end".
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

SampleFormat = Literal["int16", "float32"]
UNKNOWN_SIZE = 0xFFFFFFFF
_PCM, _IEEE_FLOAT = 1, 3


def to_float(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """int16 [n] -> float32 [n] in [-1, 1)."""
    return samples.astype(np.float32) / np.float32(2**15)


def to_bytes(samples: NDArray[np.int16], sample_format: SampleFormat = "int16") -> bytes:
    """int16 [n] -> little-endian bytes, 2 or 4 per sample."""
    if sample_format == "float32":
        return to_float(samples).astype("<f4", copy=False).tobytes()
    return samples.astype("<i2", copy=False).tobytes()


def wav_header(n_samples: int | None, sample_rate_hz: int, sample_format: SampleFormat = "int16") -> bytes:
    """Header of a mono WAV. n_samples: None where it is not known yet."""
    width = 4 if sample_format == "float32" else 2
    tag = _IEEE_FLOAT if sample_format == "float32" else _PCM
    layout = struct.pack("<HHIIHH", tag, 1, sample_rate_hz, sample_rate_hz * width, width, 8 * width)
    extra = b""
    if tag != _PCM:
        layout += struct.pack("<H", 0)
        extra = b"fact" + struct.pack("<II", 4, _size(n_samples))
    chunks = b"fmt " + struct.pack("<I", len(layout)) + layout + extra
    n_bytes = None if n_samples is None else n_samples * width
    riff_bytes = None if n_bytes is None else len(b"WAVE") + len(chunks) + 8 + n_bytes
    return b"RIFF" + struct.pack("<I", _size(riff_bytes)) + b"WAVE" + chunks + b"data" + struct.pack("<I", _size(n_bytes))


def _size(value: int | None) -> int:
    """A 32-bit size field; what does not fit is as unknown as what is not known."""
    return UNKNOWN_SIZE if value is None or value > UNKNOWN_SIZE else value


class RawWriter:
    """Bare little-endian samples, flushed chunk by chunk.

    target: a path, which is created or emptied, and closed in the end; or an open binary file, which is left open.
    """

    def __init__(self, target: str | os.PathLike[str] | BinaryIO, sample_format: SampleFormat = "int16") -> None:
        self._owns = isinstance(target, str | os.PathLike)
        self._file = Path(target).open("wb") if isinstance(target, str | os.PathLike) else target  # noqa: SIM115
        self._format: SampleFormat = sample_format
        self._closed = False

    def write(self, samples: NDArray[np.int16]) -> None:
        self._file.write(to_bytes(samples, self._format))
        self._file.flush()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._complete()
            self._file.flush()
        finally:
            if self._owns:
                self._file.close()

    def _complete(self) -> None:
        """What remains to be written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class WavWriter(RawWriter):
    """A WAV that is playable while it grows.

    exact_sizes: on close write them into the header, where the target can be sought. A pipe keeps its one streaming header.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        sample_rate_hz: int,
        sample_format: SampleFormat = "int16",
        exact_sizes: bool = True,
    ) -> None:
        super().__init__(target, sample_format)
        self._rate_hz = sample_rate_hz
        self._begin = self._file.tell() if exact_sizes and self._file.seekable() else None
        self._n_samples = 0
        self._file.write(wav_header(None, sample_rate_hz, sample_format))

    def write(self, samples: NDArray[np.int16]) -> None:
        super().write(samples)
        self._n_samples += len(samples)

    def _complete(self) -> None:
        if self._begin is not None:
            self._file.seek(self._begin)
            self._file.write(wav_header(self._n_samples, self._rate_hz, self._format))
            self._file.seek(0, os.SEEK_END)
