"""The network of tiles and the receptive field against SNAC's own torch modules."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from snac_codec.batching import decode_windows
from snac_codec.config import load_config
from snac_codec.engines.base import Engine
from snac_codec.engines.network import TileNetwork, load_weights
from snac_codec.engines.openvino import OpenVinoEngine
from snac_codec.engines.torch import TorchEngine
from snac_codec.noise import noise_tape, tape_rows
from snac_codec.receptive_field import context_latents, latents_seen
from snac_codec.tiles import tile_reach
from snac_codec.window import Window
from support.random_snac import SNAC_24KHZ, save_snac
from support.whole import on_onnxruntime, whole_audio


@pytest.mark.parametrize("at_sample", [0, 100, 511])
def test_receptive_field_equals_the_gradients(at_sample: int) -> None:
    """Exactly the latents that the formula names have an influence; neither the noise nor the width has a say in which."""
    import torch
    from snac import SNAC

    narrow: dict[str, Any] = SNAC_24KHZ | {"encoder_dim": 8, "decoder_dim": 64}
    model: Any = SNAC(**narrow)
    latents = torch.randn(1, model.latent_dim, 31, requires_grad=True)
    middle = 15
    model.decoder(latents)[0, 0, 512 * middle + at_sample].backward()
    gradient: Any = latents.grad
    seen: list[int] = gradient[0].abs().sum(0).nonzero().reshape(-1).tolist()
    assert (seen[0] - middle, seen[-1] - middle) == latents_seen([8, 8, 4, 2], at_sample, at_sample)


def test_context_of_snac_24khz_is_ten_latents(pocket: Engine) -> None:
    assert context_latents([8, 8, 4, 2]) == 10
    voice = json.loads((Path(__file__).parents[3] / "model_repository/orpheus_lm/1/pocket/voice.json").read_text())
    shape = voice["codec"]
    assert shape["context_latents"] == context_latents(pocket.config.decoder_rates)
    assert shape["samples_per_latent"] == pocket.config.samples_per_latent
    assert shape["latents_per_frame"] == pocket.config.latents_per_frame
    assert shape["sample_rate_hz"] == pocket.config.sampling_rate
    assert voice["tokens"]["codebook_size"] == pocket.config.codebook_size


@pytest.mark.parametrize("rates", [[8, 8, 4, 2], [5, 4], [3, 7, 2]])
def test_a_tile_reaches_as_far_as_its_samples_see(rates: list[int]) -> None:
    assert tile_reach(rates) >= context_latents(rates)
    assert tile_reach([8, 8, 4, 2]) == 10


@pytest.fixture(scope="module")
def genuine(random_snac: Any) -> tuple[NDArray[np.int32], int, NDArray[np.float32]]:
    """Codes, their first frame, and SNAC's own decode of them: its noise blocks untouched, with torch.randn answering from the tape."""
    import torch

    first_frame, n_frames = 60, 8
    codes = np.random.default_rng(3).integers(0, 4096, (n_frames, 7), dtype=np.int32)
    levels = [torch.from_numpy(codes[:, slots].reshape(1, -1)) for slots in ([0], [1, 4], [2, 3, 5, 6])]
    tape = iter([t[tape_rows(first_frame, n_frames)].reshape(1, 1, -1) for t in noise_tape([8, 8, 4, 2], 4)])

    def from_the_tape(shape: tuple[int, ...], **_: Any) -> torch.Tensor:
        noise = torch.from_numpy(next(tape))
        assert noise.shape == torch.Size(shape)
        return noise

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch, "randn", from_the_tape)
        audio = random_snac.decode(levels)[0, 0].numpy()
    assert audio.std() > 0.05
    return codes, first_frame, audio


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "torch"])
def test_every_engine_equals_snac_with_the_tape_in_place_of_randn(
    engine: str, snac_folder: Path, checkpoint: Path, genuine: tuple[NDArray[np.int32], int, NDArray[np.float32]]
) -> None:
    codes, first_frame, wanted = genuine
    sizes = (4 * len(codes),)
    engines = {
        "onnxruntime": lambda: on_onnxruntime(snac_folder, sizes),
        "openvino": lambda: OpenVinoEngine(snac_folder, sizes, threads=2),
        "torch": lambda: TorchEngine(checkpoint, sizes, threads=2, max_rows=1, device="cpu", precision="float32"),
    }
    assert np.abs(whole_audio(engines[engine](), codes, first_frame) - wanted).max() < 1e-4


def test_other_rates_no_noise_and_full_convolutions(tmp_path: Path) -> None:
    """Odd strides, and the layers that SNAC 24 kHz does not have."""
    import torch
    from snac import SNAC

    torch.manual_seed(1)
    shape: dict[str, Any] = SNAC_24KHZ | {
        "encoder_dim": 8,
        "decoder_dim": 32,
        "decoder_rates": [5, 4, 3],
        "noise": False,
        "depthwise": False,
    }
    shape |= {"encoder_rates": [3, 4, 5], "codebook_size": 64}
    model: Any = SNAC(**shape).eval()
    codes = np.random.default_rng(3).integers(0, 64, (9, 7), dtype=np.int32)
    with torch.no_grad():
        wanted = model.decode([torch.from_numpy(codes[:, slots].reshape(1, -1)) for slots in ([0], [1, 4], [2, 3, 5, 6])])[0, 0].numpy()
    folder = save_snac(model, tmp_path, shape)
    engine = TorchEngine(folder, (3, 7), threads=1, max_rows=2, device="cpu", precision="float32")
    window = Window(codes.reshape(-1), 0, 0, len(wanted))
    ((_, got),) = decode_windows(engine, [window], ThreadPoolExecutor(1))
    assert not isinstance(got, Exception)
    assert len(got) == 9 * 4 * 60 == len(wanted)
    assert np.abs(got / 32767 - wanted).max() < 1e-4
    assert wanted.std() > 1e-3


def test_weights_of_another_shape_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    with pytest.raises(ValueError, match=r"model\.safetensors is missing"):
        load_weights(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes((checkpoint / "pytorch_model.bin").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"codebook_size": 512}))
    with pytest.raises(ValueError, match=r"codebooks hold 4096 codes, config\.json says 512"):
        TileNetwork(load_config(tmp_path), load_weights(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(config | {"decoder_rates": [8, 8, 4, 2, 2]}))
    with pytest.raises(ValueError, match="lacks the tensor"):
        TileNetwork(load_config(tmp_path), load_weights(tmp_path))


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    import torch

    torch.save({"weight": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be loaded"):
        load_weights(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("change", [{"vq_strides": [8, 4, 2, 1]}, {"attn_window_size": 32}, {"decoder_rates": "x"}])
def test_a_config_that_cannot_be_streamed_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SNAC_24KHZ | change))
    with pytest.raises(ValueError, match=r"config\.json"):
        load_config(tmp_path)


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_missing_corrupt_and_mismatched_files_are_named(name: str, tmp_path: Path, snac_folder: Path) -> None:
    def engine(folder: Path) -> Engine:
        return on_onnxruntime(folder) if name == "onnxruntime" else OpenVinoEngine(folder, (4,), threads=1)

    with pytest.raises(ValueError, match=r"config\.json is missing"):
        engine(tmp_path)
    config = json.loads((snac_folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"decoder\.onnx is missing"):
        engine(tmp_path)
    (tmp_path / "decoder.onnx").write_bytes((snac_folder / "decoder.onnx").read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"decoder\.onnx cannot be loaded"):
        engine(tmp_path)
    (tmp_path / "decoder.onnx").write_bytes((snac_folder / "decoder.onnx").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"codebook_size": 512}))
    with pytest.raises(ValueError, match=r"codebook size of 4096, config\.json says 512"):
        engine(tmp_path)
