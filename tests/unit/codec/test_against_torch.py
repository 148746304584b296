"""The exported decoder and the receptive field against SNAC's own torch modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from snac_codec.config import load_config
from snac_codec.decoder import OnnxDecoder
from snac_codec.noise import noise_tape, tape_rows
from snac_codec.receptive_field import block_inputs_seen, context_latents, needed_spans
from support.random_snac import SNAC_24KHZ


@pytest.mark.parametrize("at_sample", [0, 100, 511])
def test_receptive_field_equals_the_gradients(random_snac: Any, at_sample: int) -> None:
    """Exactly the latents that the formula names have an influence; the noise has no say in which."""
    import torch

    latents = torch.randn(1, random_snac.latent_dim, 41, requires_grad=True)
    middle = 20
    random_snac.decoder(latents)[0, 0, 512 * middle + at_sample].backward()
    gradient: Any = latents.grad
    seen: list[int] = gradient[0].abs().sum(0).nonzero().reshape(-1).tolist()
    first, last = block_inputs_seen([8, 8, 4, 2], at_sample, at_sample)[0]
    assert (seen[0] - middle, seen[-1] - middle) == (first - 3, last + 3)


def test_context_of_snac_24khz_is_ten_latents(pocket: OnnxDecoder) -> None:
    assert context_latents([8, 8, 4, 2]) == 10
    voice = json.loads((Path(__file__).parents[3] / "model_repository/orpheus_lm/1/pocket/voice.json").read_text())
    shape = voice["codec"]
    assert shape["context_latents"] == context_latents(pocket.config.decoder_rates)
    assert shape["samples_per_latent"] == pocket.config.samples_per_latent
    assert shape["latents_per_frame"] == pocket.config.latents_per_frame
    assert shape["sample_rate_hz"] == pocket.config.sampling_rate
    assert voice["tokens"]["codebook_size"] == pocket.config.codebook_size


def test_needed_spans_are_clipped_to_the_window() -> None:
    spans = needed_spans([8, 8, 4, 2], latents=12, first_sample=0, n_samples=12 * 512)
    assert spans.tolist() == [[0, 12], [0, 96], [0, 768], [0, 3072], [0, 6144]]
    inner = needed_spans([8, 8, 4, 2], latents=24, first_sample=5120, n_samples=2048)
    assert (inner[:, 0] > 0).all()
    assert inner[-1].tolist() == [5120, 7168]


def test_the_export_equals_snac_with_the_tape_in_place_of_randn(
    snac_24khz: OnnxDecoder, random_snac: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SNAC's own decode, its noise blocks untouched, with torch.randn answering from the tape."""
    import torch

    first_frame, n_frames = 60, 9
    codes = np.random.default_rng(3).integers(0, 4096, (n_frames, 7))
    levels = [torch.from_numpy(codes[:, slots].reshape(1, -1)) for slots in ([0], [1, 4], [2, 3, 5, 6])]
    tape = iter([t[tape_rows(first_frame, n_frames)].reshape(1, 1, -1) for t in noise_tape([8, 8, 4, 2], 4)])

    def from_the_tape(shape: tuple[int, ...], **_: Any) -> torch.Tensor:
        noise = torch.from_numpy(next(tape))
        assert noise.shape == torch.Size(shape)
        return noise

    monkeypatch.setattr(torch, "randn", from_the_tape)
    with torch.no_grad():
        wanted = random_snac.decode(levels)[0, 0].numpy()
    got = snac_24khz.decode(codes.reshape(1, -1).astype(np.int32), np.array([first_frame]), 0, len(wanted))[0]
    assert np.abs(got - wanted).max() < 1e-4
    assert wanted.std() > 0.05


@pytest.mark.parametrize("change", [{"vq_strides": [8, 4, 2, 1]}, {"attn_window_size": 32}, {"decoder_rates": "x"}])
def test_a_config_that_cannot_be_streamed_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SNAC_24KHZ | change))
    with pytest.raises(ValueError, match=r"config\.json"):
        load_config(tmp_path)


def test_missing_corrupt_and_mismatched_files_are_named(tmp_path: Path, snac_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        OnnxDecoder(tmp_path)
    config = json.loads((snac_folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"decoder\.onnx is missing"):
        OnnxDecoder(tmp_path)
    (tmp_path / "decoder.onnx").write_bytes((snac_folder / "decoder.onnx").read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"decoder\.onnx cannot be loaded"):
        OnnxDecoder(tmp_path)
    (tmp_path / "decoder.onnx").write_bytes((snac_folder / "decoder.onnx").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"codebook_size": 512}))
    with pytest.raises(ValueError, match=r"codebook size of 4096, config\.json says 512"):
        OnnxDecoder(tmp_path)
