"""Export a SNAC checkpoint to the decoder that `snac_decoder` serves.

    python scripts/export_codec.py CHECKPOINT_FOLDER OUTPUT_FOLDER

CHECKPOINT_FOLDER holds SNAC's config.json and pytorch_model.bin (or model.safetensors). OUTPUT_FOLDER gets config.json and decoder.onnx:
codes int32
[batch, 7 * frames] in slot order, first_frame int64 [batch] and spans int64 [blocks + 1, 2] (snac_codec.receptive_field.needed_spans) in,
audio
float32 [batch, samples] out, the noise tape inside. The result is compared with torch before it is kept. Needs torch, snac and onnx
(requirements/test.txt); the server needs none of them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

sys.path.insert(0, str(Path(__file__).parents[1] / "model_repository/snac_decoder/1"))

from snac_codec.config import CODES_PER_FRAME, load_config
from snac_codec.noise import PERIOD_FRAMES, noise_tape
from snac_codec.receptive_field import needed_spans

TOLERANCE = 1e-4
"""Largest difference of a sample from torch's, of full scale 1: a third of a 16-bit step would be 1e-5, float32 sums in another order
make up to 1e-5."""


SLOTS_OF_LEVEL = ((0,), (1, 4), (2, 3, 5, 6))
"""Orpheus's order of a frame's codes (canopyai/Orpheus-TTS, orpheus_tts/decoder.py)."""


class TapeNoise(nn.Module):
    """In place of snac.layers.NoiseBlock: the same layer with the tape's rows instead of fresh noise."""

    tape: torch.Tensor

    def __init__(self, linear: nn.Module, tape: torch.Tensor) -> None:
        super().__init__()
        self.linear = linear
        self.register_buffer("tape", tape)
        self.rows = torch.zeros(1, 1, dtype=torch.int64)
        self.start = torch.tensor(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """rows: the tape's row of each frame [batch, frames]; start: where in the window x begins, in values of this layer."""
        noise = self.tape[self.rows].flatten(1)[:, None, self.start : self.start + x.shape[-1]]
        return x + noise * self.linear(x)


class Snake(nn.Module):
    """In place of snac.layers.Snake1d, whose scripted form the exporter gets wrong and ONNX Runtime runs in twice as many nodes."""

    alpha: torch.Tensor
    scale: torch.Tensor

    def __init__(self, alpha: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("alpha", alpha.detach().clone())
        self.register_buffer("scale", (alpha.detach() + 1e-9).reciprocal())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wave = torch.sin(self.alpha * x)
        return x + self.scale * (wave * wave)


class WindowDecoder(nn.Module):
    """codes int32 [batch, 7 * frames], first_frame int64 [batch], spans int64 [blocks + 1, 2] -> audio float32 [batch, samples].

    Between the decoder's blocks only the span that the wanted samples need goes on.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.quantizer, self.decoder, self.rates = model.quantizer, model.decoder, list(model.decoder_rates)
        tapes = iter(noise_tape(model.decoder_rates, model.vq_strides[0]))
        self.noise: list[TapeNoise] = []
        for parent in list(self.decoder.modules()):
            for name, child in list(parent.named_children()):
                if type(child).__name__ == "NoiseBlock":
                    self.noise.append(TapeNoise(child.linear, torch.from_numpy(next(tapes))))
                    setattr(parent, name, self.noise[-1])
                elif type(child).__name__ == "Snake1d":
                    setattr(parent, name, Snake(child.alpha))
        for layer in self.modules():
            if parametrize.is_parametrized(layer):
                parametrize.remove_parametrizations(layer, "weight")

    def forward(self, codes: torch.Tensor, first_frame: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
        slots = [codes[:, slot::CODES_PER_FRAME].long() for slot in range(CODES_PER_FRAME)]
        rows = torch.remainder(first_frame[:, None] + torch.arange(slots[0].shape[1])[None], PERIOD_FRAMES)
        latents: Any = 0.0
        for order, level in zip(SLOTS_OF_LEVEL, self.quantizer.quantizers, strict=True):
            picked = torch.stack([slots[slot] for slot in order], -1).flatten(1)
            vectors = level.out_proj(level.decode_code(picked))
            latents = latents + (vectors.repeat_interleave(level.stride, dim=-1) if level.stride > 1 else vectors)
        x, start, block = latents, torch.zeros((), dtype=torch.int64), 0
        for layer in self.decoder.model:
            if type(layer).__name__ == "DecoderBlock":
                x = x[..., spans[block, 0] - start : spans[block, 1] - start]
                start = spans[block, 0] * self.rates[block]
                if self.noise:
                    self.noise[block].rows, self.noise[block].start = rows, start
                block += 1
            x = layer(x)
        return x[:, 0, spans[block, 0] - start : spans[block, 1] - start]


def load_snac(folder: Path) -> Any:
    """A SNAC model from its folder, without running any code of the checkpoint."""
    from snac import SNAC

    model = SNAC.from_config(str(folder / "config.json"))
    file = folder / "model.safetensors"
    if file.exists():
        import safetensors.torch

        weights = cast(Any, safetensors.torch).load_file(str(file))
    else:
        weights = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    model.load_state_dict(weights)
    return model.eval()


def export(model: Any, config_json: Path, out: Path) -> float:
    """Write OUTPUT_FOLDER and return the largest difference from torch. Raises ValueError where it is over TOLERANCE."""
    import onnx

    wrapper = WindowDecoder(model).eval()
    codes = torch.randint(0, model.codebook_size, (2, CODES_PER_FRAME * 6), dtype=torch.int32)
    spans = torch.from_numpy(needed_spans(model.decoder_rates, 6 * model.vq_strides[0], 5120, 2048))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        path = Path(folder) / "decoder.onnx"
        # The older exporter needs no further package; inference mode would freeze the sizes into the graph.
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                wrapper, (codes, torch.tensor([0, 3]), spans), str(path), input_names=["codes", "first_frame", "spans"],
                output_names=["audio"], opset_version=17, dynamo=False,
                dynamic_axes={"codes": {0: "batch", 1: "codes"}, "first_frame": {0: "batch"},
                              "audio": {0: "batch", 1: "samples"}},
            )  # fmt: skip
        graph = onnx.load(str(path))
        graph.metadata_props.add(key="codebook_size", value=str(model.codebook_size))
        onnx.save(graph, str(path))
        shutil.copyfile(config_json, Path(folder) / "config.json")
        difference = largest_difference(wrapper, Path(folder), model.codebook_size)
        if difference > TOLERANCE:
            raise ValueError(f"the exported decoder differs from torch by {difference:.2e} of full scale, more than {TOLERANCE:.0e}")
        for name in ("config.json", "decoder.onnx"):
            (Path(folder) / name).replace(out / name)
    return difference


def largest_difference(wrapper: WindowDecoder, folder: Path, codebook_size: int) -> float:
    """Parts of windows on ONNX Runtime against the same parts of torch's whole decode."""
    from snac_codec.decoder import OnnxDecoder

    decoder, rng, worst = OnnxDecoder(folder), np.random.default_rng(0), 0.0
    for batch, frames, first, count in ((1, 3, 0, 1024), (3, 6, 5120, 2048), (2, 13, 5120, 16384), (1, 5, 5120, 5120), (2, 2, 0, 4096)):
        codes = rng.integers(0, codebook_size, (batch, CODES_PER_FRAME * frames), dtype=np.int32)
        position = rng.integers(0, 1000, batch)
        spans = needed_spans(wrapper.rates, 4 * frames, 0, decoder.config.samples_per_frame * frames)
        with torch.no_grad():
            whole = wrapper(torch.from_numpy(codes), torch.from_numpy(position), torch.from_numpy(spans)).numpy()
        worst = max(worst, float(np.abs(decoder.decode(codes, position, first, count) - whole[:, first : first + count]).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    load_config(args.checkpoint)
    print(f"loading {args.checkpoint}", file=sys.stderr)
    model = load_snac(args.checkpoint)
    print("exporting and comparing with torch", file=sys.stderr)
    try:
        difference = export(model, args.checkpoint / "config.json", args.output)
    except ValueError as error:
        sys.exit(f"export_codec: {error}")
    size = (args.output / "decoder.onnx").stat().st_size
    print(f"{args.output}: {size / 1e6:.1f} MB, largest difference from torch {difference:.1e} of full scale")


if __name__ == "__main__":
    main()
