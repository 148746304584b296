from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from snac_codec.acks import Acknowledger
from snac_codec.config import CodecConfig
from snac_codec.pcm import to_int16
from snac_codec.settings import load_settings
from snac_codec.window import InvalidWindow, parse_window
from speech_lm.acks import AckTable

CONFIG = CodecConfig(24000, (8, 8, 4, 2), (4, 2, 1), 4096, None, True)
GOOD: dict[str, Any] = {"CODES": np.zeros((1, 21), np.int32), "EMIT": np.array([[0, 1024]]), "FIRST_FRAME": np.array([[5]])}
PARAMETERS = {
    "folder": "pocket", "engine": "openvino", "device": "cpu", "precision": "float32", "threads": "1", "max_rows": "1", "max_frames": "64",
    "tile_latents": "8, 4,16",
}  # fmt: skip


def test_a_window() -> None:
    window = parse_window(GOOD, CONFIG, 64)
    assert (window.n_frames, window.first_frame, window.first_sample, window.n_samples) == (3, 5, 0, 1024)


@pytest.mark.parametrize("code", [0, 4095])
def test_the_first_and_the_last_code_are_legal(code: int) -> None:
    parse_window(GOOD | {"CODES": np.full(7, code), "EMIT": np.array([0, 2048])}, CONFIG, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"CODES": np.zeros(20)}, "CODES must hold whole frames of 7 codes, not 20"),
        ({"CODES": np.zeros(0)}, "CODES must hold whole frames"),
        ({"CODES": np.full(21, 4096)}, "CODES must be from 0 to 4095; found 4096"),
        ({"CODES": np.full(21, -1)}, "found -1"),
        ({"CODES": np.zeros(7 * 65)}, "CODES holds 65 frames; this server decodes at most 64"),
        ({"EMIT": np.array([0])}, "EMIT must hold"),
        ({"EMIT": np.array([1, 6144])}, r"EMIT \[1, 6144\] lies outside the window's 6144 samples"),
        ({"EMIT": np.array([-1, 5])}, "lies outside"),
        ({"EMIT": np.array([0, -5])}, "lies outside"),
        ({"FIRST_FRAME": np.array([-1])}, "FIRST_FRAME must be one number, 0 or more"),
        ({"FIRST_FRAME": np.zeros(2)}, "FIRST_FRAME must be one number"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidWindow, match=message):
        parse_window(GOOD | change, CONFIG, 64)


def test_pcm_rounds_and_clamps() -> None:
    audio = np.array([0.0, 1.0, -1.0, 1.5, -7.0, 0.5, 0.4 / 32767, 0.6 / 32767])
    assert to_int16(audio).tolist() == [0, 32767, -32767, 32767, -32767, 16384, 0, 1]


def test_settings() -> None:
    settings = load_settings(PARAMETERS | {"EXECUTION_ENV_PATH": "/x"}, {"SNAC_THREADS": "2", "SNAC_FOLDER": "/models/snac"})
    assert (settings.calls, settings.max_rows, settings.tile_latents) == (2, 1, (4, 8, 16))
    assert settings.path(Path("/repository/1")) == Path("/models/snac")


@pytest.mark.parametrize(
    ("parameters", "environment", "message"),
    [
        ({"thread": "1"}, {}, "unknown config.pbtxt parameter thread;"),
        ({}, {"SNAC_THREAD": "1"}, "unknown environment variable SNAC_THREAD;"),
        ({}, {"SNAC_THREADS": "two"}, "threads must be a whole number from 0 on, not 'two'"),
        ({"max_rows": "0"}, {}, "max_rows must be a whole number from 1 on"),
        ({"tile_latents": "4,,8"}, {}, "tile_latents must be whole numbers from 1 on with commas between, not '4,,8'"),
        ({}, {"SNAC_ENGINE": "tensorflow"}, "engine must be one of openvino, onnxruntime, torch, not 'tensorflow'"),
    ],
)
def test_settings_that_do_not_fit_are_named(parameters: dict[str, str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_settings(PARAMETERS | parameters, environment)


def test_what_the_codec_acknowledges_the_language_model_reads(tmp_path: Path) -> None:
    table, codec = AckTable(4, tmp_path), Acknowledger(tmp_path)
    ticket = table.take()
    for now in (1.0, 2.0, 3.0):
        table.sent(ticket, now)
    words = (table.table_id, ticket.slot, ticket.generation)
    codec.batch_started({table.table_id})
    assert codec.acknowledge(words, 0)
    assert codec.acknowledge(words, 1)
    codec.batch_finished()
    assert table.outstanding(ticket, 4.0) == 1
    table.give_back(ticket)
    assert not codec.acknowledge(words, 2), "the slot has no owner any more"
    table.close()


def test_tickets_of_nobody_do_no_harm(tmp_path: Path) -> None:
    table, codec = AckTable(2, tmp_path), Acknowledger(tmp_path)
    ticket = table.take()
    before = table.path.read_bytes()
    tickets = [
        (0, 0, 0),
        (-1, 0, 1),
        (12345, 0, 1),
        (table.table_id, 99, ticket.generation),
        (table.table_id, -1, 1),
        (table.table_id, ticket.slot, 77),
    ]
    assert not any(codec.acknowledge(t, 0) for t in tickets)
    assert table.path.read_bytes() == before
    table.close()


@pytest.mark.parametrize("content", [b"", b"x" * 64, b"\0" * 128, b"\0" * 127])
def test_a_file_that_is_no_table_is_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"orpheus-ack-{5:016x}"
    path.write_bytes(content)
    assert not Acknowledger(tmp_path).acknowledge((5, 0, 1), 0)
    assert path.read_bytes() == content


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    table = AckTable(2, tmp_path)
    (tmp_path / f"orpheus-ack-{6:016x}").symlink_to(table.path)
    assert not Acknowledger(tmp_path).acknowledge((6, 0, 1), 0)
    table.close()
