"""What the peers decode, and how a setting is changed in a copy of the repository."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import knobs
import methods
import numpy as np
import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loadgen.variants import Measured
from support.model_config import read_config

ROOT = Path(__file__).parents[3]


@given(st.sampled_from(["whole", "prefix"]), st.integers(1, 60))
def test_these_peers_send_every_sample_once(method: str, frames: int) -> None:
    position = 0
    for wanted in methods.METHODS[method](range(1, frames + 1)):
        assert wanted.first_sample == position
        position += wanted.n_samples
        assert 0 <= wanted.first_frame < wanted.end_frame <= frames
        if wanted.end_frame < frames:
            assert position <= (wanted.end_frame - methods.CONTEXT_FRAMES) * methods.SAMPLES_PER_FRAME, (
                "only what later frames do not change"
            )
    assert position == frames * methods.SAMPLES_PER_FRAME


@given(st.integers(0, 60))
def test_the_sliding_window_loses_the_first_frame_and_the_last_two(frames: int) -> None:
    heard = [wanted.first_frame + 1 for wanted in methods.sliding(range(1, frames + 1))]
    assert heard == list(range(1, frames - 2))


def test_the_peer_stands_where_the_ensemble_stood(tmp_path: Path) -> None:
    (tmp_path / "orpheus_tts" / "1").mkdir(parents=True)
    (tmp_path / "orpheus_tts" / "config.pbtxt").write_text('name: "orpheus_tts" platform: "ensemble"')
    peers.in_the_place_of_the_ensemble("sliding")(tmp_path)
    config = read_config(tmp_path / "orpheus_tts" / "config.pbtxt")
    assert config.backend == "python"
    assert config.parameters["method"].string_value == "sliding"
    assert (tmp_path / "orpheus_tts" / "1" / "model.py").is_file()


def test_peers_have_the_ensembles_tensors() -> None:
    ours, peer = (read_config(ROOT / folder / "config.pbtxt") for folder in ("model_repository/orpheus_tts", "perf/peers/peer_tts"))
    types = {tensor.name: tensor.data_type for tensor in (*ours.input, *ours.output)}
    assert {tensor.name: types.get(tensor.name) for tensor in (*peer.input, *peer.output)} == {
        tensor.name: tensor.data_type for tensor in (*peer.input, *peer.output)
    }


def test_the_queue_delay_is_changed_in_the_codecs_configuration_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "model_repository" / "snac_decoder", tmp_path / "snac_decoder", ignore=shutil.ignore_patterns("1"))
    knobs.queue_delay(30_000)(tmp_path)
    changed, shipped = (read_config(path / "snac_decoder" / "config.pbtxt") for path in (tmp_path, ROOT / "model_repository"))
    assert changed.dynamic_batching.max_queue_delay_microseconds == 30_000
    assert shipped.dynamic_batching.max_queue_delay_microseconds == 15_000
    changed.dynamic_batching.max_queue_delay_microseconds = 15_000
    assert changed == shipped


def test_a_configuration_without_a_queue_delay_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "snac_decoder").mkdir()
    (tmp_path / "snac_decoder" / "config.pbtxt").write_text("dynamic_batching { }")
    with pytest.raises(ValueError, match="0 queue delays"):
        knobs.queue_delay(0)(tmp_path)


def test_rounds_are_merged_by_sums_and_medians() -> None:
    sound = np.full(100, 1000, np.int16)
    rounds = [
        Measured(
            [{"variant": "x", "concurrency": 1, "streams": 8, "failed": 0, "streams_with_underruns": n, "first_audio_p50_ms": ms}],
            [],
            [sound],
        )
        for n, ms in ((0, 50.0), (1, 90.0), (2, 60.0))
    ]
    (row,) = knobs.merged(rounds, Measured([], [], [sound - 10]))
    assert (row["streams"], row["streams_with_underruns"], row["first_audio_p50_ms"], row["concurrency"]) == (24, 3, 60.0, 1)
    assert row["error_db"] == f"{20 * np.log10(10 / 990):.1f}"
    assert json.dumps(row)
