"""SNAC's quantizer and decoder as a network of tiles, in torch: what scripts/export_codec.py exports and the `torch` engine runs.

The arithmetic is that of snac.SNAC (hubertsiuzdak/snac, snac/layers.py and vq.py), with four differences that do not change a sample:
- convolutions do not pad. A tile brings the neighbours that they need, and what lies outside the window is set to zero in front of them;
- a transposed convolution of stride s is a convolution of two inputs with s times the channels, whose output is read in another order:
  processors and their libraries are much faster at it;
- noise comes from the tape (`snac_codec.noise`) by absolute position instead of `torch.randn`;
- weight normalisation is folded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import CodecConfig
from ..noise import noise_tape
from ..receptive_field import HALF_KERNEL, RESIDUAL_DILATIONS
from ..tiles import BlockReach, TileInputs, block_reaches

Weights = Mapping[str, Tensor]


def load_weights(folder: Path) -> Weights:
    """A SNAC checkpoint's tensors, without running any code of it. Raises ValueError that names the file."""
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    try:
        if safe.is_file():
            import safetensors.torch

            torch_files: Any = safetensors.torch
            return torch_files.load_file(str(safe))
        if pickled.is_file():
            return torch.load(pickled, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{safe if safe.is_file() else pickled} cannot be loaded: {error}") from None
    raise ValueError(f"{safe} is missing: the weights of a SNAC checkpoint, or pytorch_model.bin")


def tensors_of(inputs: TileInputs) -> list[Tensor]:
    """What TileNetwork takes, in its order."""
    return [torch.from_numpy(array) for array in (inputs.codes, inputs.position, inputs.valid)]  # pyright: ignore[reportUnknownMemberType]


class TileNetwork(nn.Module):
    """Raises ValueError for weights that do not fit the config."""

    def __init__(self, config: CodecConfig, weights: Weights) -> None:
        super().__init__()
        try:
            self.quantizer = Quantizer(weights, len(config.vq_strides))
            self.start, at = _start(weights)
            tapes = noise_tape(config.decoder_rates, config.latents_per_frame) if config.noise else [None] * len(config.decoder_rates)
            reaches = block_reaches(config.decoder_rates)
            self.blocks = nn.ModuleList(
                Block(weights, f"decoder.model.{at + i}.block", rate, math.prod(config.decoder_rates[:i]), reach, tape)
                for i, (rate, reach, tape) in enumerate(zip(config.decoder_rates, reaches, tapes, strict=True))
            )
            at += len(config.decoder_rates)
            self.snake = Snake(weights[f"decoder.model.{at}.alpha"])
            self.end = Ending(*_folded(weights, f"decoder.model.{at + 1}"))
        except KeyError as error:
            raise ValueError(f"the checkpoint lacks the tensor {error}, which its config.json asks for") from None
        self.reach = reaches[0].taken + HALF_KERNEL
        self.samples_per_latent = config.samples_per_latent
        if self.quantizer.codebook_size != config.codebook_size:
            raise ValueError(
                f"the checkpoint's codebooks hold {self.quantizer.codebook_size} codes, config.json says {config.codebook_size}"
            )

    def forward(self, codes: Tensor, position: Tensor, valid: Tensor) -> Tensor:
        """int32 [B, 3, n + 2 reach], int64 [B], int64 [B, 2] (snac_codec.tiles.TileInputs) -> audio float [B, n samples_per_latent]."""
        where = Where(position, valid - self.reach)
        x = where.keep(self.quantizer(codes), 1, self.reach)
        for layer in self.start:
            x = layer(x)
        for block in self.blocks:
            x = block(x, where)
        x = where.keep(self.snake(x), self.samples_per_latent, HALF_KERNEL)
        return torch.tanh(self.end(x))


class Where:
    """Where tiles lie in their streams. valid: [B, 2], first and end of the latents that exist, counted from the first new one."""

    def __init__(self, position: Tensor, valid: Tensor) -> None:
        self.position, self.valid = position, valid

    def keep(self, x: Tensor, rate: int, reach: int) -> Tensor:
        """x [B, C, T] at `rate` values per latent, beginning `reach` values before the first new latent, with zeros where nothing
        exists."""
        at = torch.arange(x.shape[-1], device=x.device) - reach
        inside = (at >= self.valid[:, :1] * rate) & (at < self.valid[:, 1:] * rate)
        return x * inside[:, None].to(x.dtype)

    def tape_at(self, length: int, rate: int, reach: int, period: int) -> Tensor:
        """Indices [B, length] into a tape of `rate` values per latent, for values that begin `reach` before the first new latent."""
        at = torch.arange(length, device=self.position.device) - reach
        return torch.remainder(self.position[:, None] * rate + at, period)


class Quantizer(nn.Module):
    """Codes [B, 3, T], at the rate of latents, to latents [B, C, T]: the levels' output projections are one matrix."""

    codebooks: Tensor
    offsets: Tensor

    def __init__(self, weights: Weights, levels: int) -> None:
        super().__init__()
        names = [f"quantizer.quantizers.{level}" for level in range(levels)]
        books = torch.stack([weights[f"{name}.codebook.weight"] for name in names])
        self.codebook_size = books.shape[1]
        self.register_buffer("codebooks", books.flatten(0, 1))
        self.register_buffer("offsets", torch.arange(levels)[:, None] * self.codebook_size)
        projections = [_folded(weights, f"{name}.out_proj") for name in names]
        self.project = Convolution(torch.cat([w for w, _ in projections], 1), torch.stack([_bias(b) for _, b in projections]).sum(0))

    def forward(self, codes: Tensor) -> Tensor:
        vectors = self.codebooks[codes.long() + self.offsets]  # [B, 3, T, 8]
        return self.project(vectors.transpose(2, 3).flatten(1, 2))


class Block(nn.Module):
    """One decoder block; rate: values per latent at its input."""

    tape: Tensor | None

    def __init__(self, weights: Weights, name: str, stride: int, rate: int, reach: BlockReach, tape: Any) -> None:
        super().__init__()
        self.rate, self.stride, self.reach = rate, stride, reach
        self.snake = Snake(weights[f"{name}.0.alpha"])
        self.spread = Spread(*_folded(weights, f"{name}.1"), stride)
        at = 2
        self.register_buffer("tape", None if tape is None else torch.from_numpy(tape).flatten())
        if tape is not None:
            self.noise = Convolution(*_folded(weights, f"{name}.2.linear"))
            at = 3
        self.units = nn.ModuleList(
            ResidualUnit(weights, f"{name}.{at + i}.block", dilation) for i, dilation in enumerate(RESIDUAL_DILATIONS)
        )

    def forward(self, x: Tensor, where: Where) -> Tensor:
        x = self.spread(where.keep(self.snake(x), self.rate, self.reach.taken))
        x = x[..., self.reach.before : x.shape[-1] - self.reach.after]
        rate, reach = self.rate * self.stride, self.reach.made
        if self.tape is not None:
            noise = self.tape[where.tape_at(x.shape[-1], rate, reach, len(self.tape))]
            x = x + noise[:, None] * self.noise(x)
        for unit, dilation in zip(self.units, RESIDUAL_DILATIONS, strict=True):
            x = unit(x, where, rate, reach)
            reach -= HALF_KERNEL * dilation
        return x


class ResidualUnit(nn.Module):
    def __init__(self, weights: Weights, name: str, dilation: int) -> None:
        super().__init__()
        self.reach = HALF_KERNEL * dilation
        self.first_snake, self.second_snake = Snake(weights[f"{name}.0.alpha"]), Snake(weights[f"{name}.2.alpha"])
        self.wide = Convolution(*_folded(weights, f"{name}.1"), dilation=dilation)
        self.pointwise = Convolution(*_folded(weights, f"{name}.3"))

    def forward(self, x: Tensor, where: Where, rate: int, reach: int) -> Tensor:
        y = self.wide(where.keep(self.first_snake(x), rate, reach))
        return x[..., self.reach : x.shape[-1] - self.reach] + self.pointwise(self.second_snake(y))


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha; of zero it makes zero."""

    alpha: Tensor
    scale: Tensor

    def __init__(self, alpha: Tensor) -> None:
        super().__init__()
        self.register_buffer("alpha", alpha.detach().clone())
        self.register_buffer("scale", (alpha.detach() + 1e-9).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.sin(self.alpha * x)
        return x + self.scale * (wave * wave)


class Convolution(nn.Module):
    """Without padding; depthwise where the weights have one input channel only."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, dilation: int = 1) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        groups = x.shape[1] // self.weight.shape[1]
        return functional.conv1d(x, self.weight, self.bias, dilation=self.dilation, groups=groups)


class Spread(nn.Module):
    """A transposed convolution of kernel 2 s, stride s and padding ceil(s / 2): of every two neighbours, inputs i - 1 and i, it makes the s
    outputs that a transposed convolution without padding puts at s i to s i + s - 1. Those lie `padding` further on."""

    def __init__(self, weight: Tensor, bias: Tensor | None, stride: int) -> None:
        super().__init__()
        n_in, n_out, kernel = weight.shape
        if kernel != 2 * stride:
            raise ValueError(f"a transposed convolution has a kernel of {kernel}, not of twice its stride {stride}")
        self.stride, self.channels = stride, n_out
        # Input i reaches outputs s i + k through tap k: taps 0 to s - 1 of input i and s to 2 s - 1 of input i - 1 meet.
        taps = weight.reshape(n_in, n_out, 2, stride).flip(2).permute(3, 1, 0, 2)
        self.convolution = Convolution(taps.flatten(0, 1), None if bias is None else bias.repeat(stride))

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(x).transpose(1, 2)
        # With channels last in memory, where fast convolutions have them, nothing moves here.
        return y.reshape(y.shape[0], -1, self.channels).transpose(1, 2)


class Ending(nn.Module):
    """The last convolution, to one channel: as one for each channel and their sum, which is faster."""

    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.convolution = Convolution(weight.transpose(0, 1), None)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(x).sum(1)
        return y if self.bias is None else y + self.bias


def _start(weights: Weights) -> tuple[nn.ModuleList, int]:
    """The convolutions in front of the blocks, and the number of the layer behind them: two where the first is depthwise, else one."""
    layers = [Convolution(*_folded(weights, "decoder.model.0"))]
    if "decoder.model.1.bias" in weights:
        layers.append(Convolution(*_folded(weights, "decoder.model.1")))
    return nn.ModuleList(layers), len(layers)


def _folded(weights: Weights, name: str) -> tuple[Tensor, Tensor | None]:
    """A layer's weight, of either form of torch's weight normalisation or of none, and its bias."""
    bias = weights.get(f"{name}.bias")
    for scale, direction in (("parametrizations.weight.original0", "parametrizations.weight.original1"), ("weight_g", "weight_v")):
        if f"{name}.{scale}" in weights:
            v = weights[f"{name}.{direction}"]
            norm = cast(Tensor, torch.linalg.vector_norm(v, dim=tuple(range(1, v.ndim)), keepdim=True))
            return weights[f"{name}.{scale}"] * v / norm, bias
    return weights[f"{name}.weight"], bias


def _bias(bias: Tensor | None) -> Tensor:
    if bias is None:
        raise ValueError("an output projection of the quantizer has no bias")
    return bias
