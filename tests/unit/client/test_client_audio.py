"""WAV files as a reader sees them."""

from __future__ import annotations

import io
import os
import struct
import wave
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
from orpheus_client.audio import UNKNOWN_SIZE, RawWriter, SampleFormat, WavWriter, to_float, wav_header

SAMPLES = np.array([0, 1, -1, 32767, -32768], np.int16)


def chunks_of(wav: bytes) -> dict[bytes, tuple[int, int]]:
    """-> by chunk name: where its content begins and the size it claims."""
    assert wav[:4] == b"RIFF"
    assert wav[8:12] == b"WAVE"
    found: dict[bytes, tuple[int, int]] = {}
    at = 12
    while at < len(wav):
        name, size = wav[at : at + 4], struct.unpack_from("<I", wav, at + 4)[0]
        found[name] = at + 8, size
        at += 8 + size
    return found


def test_a_saved_file_has_exact_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with WavWriter(path, 24000) as file:
        file.write(SAMPLES[:2])
        file.write(SAMPLES[2:])
    content = path.read_bytes()
    assert struct.unpack_from("<I", content, 4)[0] == len(content) - 8
    begin, size = chunks_of(content)[b"data"]
    assert size == len(content) - begin == 2 * len(SAMPLES)
    with wave.open(str(path)) as read:
        assert (read.getnchannels(), read.getsampwidth(), read.getframerate(), read.getnframes()) == (1, 2, 24000, len(SAMPLES))
        assert read.readframes(10) == SAMPLES.astype("<i2").tobytes()


def test_a_float_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with WavWriter(path, 24000, "float32") as file:
        file.write(SAMPLES)
    content = path.read_bytes()
    chunks = chunks_of(content)
    tag, channels, rate, bytes_per_s, width, bits, extra = struct.unpack_from("<HHIIHHH", content, chunks[b"fmt "][0])
    assert (tag, channels, rate, bytes_per_s, width, bits, extra) == (3, 1, 24000, 96000, 4, 32, 0)
    assert struct.unpack_from("<I", content, chunks[b"fact"][0])[0] == len(SAMPLES)
    begin, size = chunks[b"data"]
    assert struct.unpack_from("<I", content, 4)[0] == len(content) - 8
    np.testing.assert_array_equal(np.frombuffer(content[begin : begin + size], "<f4"), to_float(SAMPLES))


@pytest.mark.parametrize("sample_format", ["int16", "float32"])
def test_a_pipe_gets_one_header_of_unknown_size(sample_format: SampleFormat) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader:
        with os.fdopen(write_end, "wb") as writer:
            file = WavWriter(writer, 24000, sample_format)
            file.write(SAMPLES)
            file.write(SAMPLES)
            file.close()
        content = reader.read()
    assert content.count(b"RIFF") == content.count(b"WAVE") == content.count(b"data") == 1
    assert struct.unpack_from("<I", content, 4)[0] == UNKNOWN_SIZE
    at = content.index(b"data")
    assert struct.unpack_from("<I", content, at + 4)[0] == UNKNOWN_SIZE
    assert len(content) - at - 8 == 2 * len(SAMPLES) * (2 if sample_format == "int16" else 4)


def test_an_open_file_keeps_what_stood_before_and_stays_open(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w+b") as target:
        target.write(b"before")
        with WavWriter(target, 24000) as file:
            file.write(SAMPLES)
        target.write(b"after")
        target.seek(0)
        content = target.read()
    assert content == b"before" + wav_header(len(SAMPLES), 24000) + SAMPLES.astype("<i2").tobytes() + b"after"


def test_what_does_not_fit_32_bits_is_unknown() -> None:
    assert wav_header(2**31, 24000) == wav_header(None, 24000)


def test_float_is_in_range() -> None:
    floats = to_float(SAMPLES)
    assert floats.dtype == np.float32
    assert floats.tolist() == [0.0, 2**-15, -(2**-15), 1 - 2**-15, -1.0]


class Flushed(io.BytesIO):
    flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_raw_samples_are_flushed_chunk_by_chunk() -> None:
    target = Flushed()
    raw = RawWriter(cast(BinaryIO, target))
    raw.write(SAMPLES)
    assert target.flushes == 1
    raw.write(SAMPLES)
    raw.close()
    assert target.getvalue() == 2 * SAMPLES.astype("<i2").tobytes()


def test_a_streamed_file_keeps_its_sizes_unknown(tmp_path: Path) -> None:
    """Standard output may be a file that is appended to: nothing may be written in front of what is there."""
    with (tmp_path / "a").open("wb") as target, WavWriter(target, 24000, exact_sizes=False) as file:
        file.write(SAMPLES)
    assert (tmp_path / "a").read_bytes() == wav_header(None, 24000) + SAMPLES.astype("<i2").tobytes()
