"""The pocket codec: SNAC's own quantizer and decoder, small, behind the encoder of `features.py`.

Only codes -> audio is needed at run time, so SNAC's waveform encoder, which would cost half of the training, is never trained: it is in
the saved folder (`snac.SNAC.from_pretrained` wants it) and unused.
"""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import snac.layers
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from snac import SNAC
from torch import nn

from pocket_voice.features import FeatureEncoder
from pocket_voice.layout import SAMPLE_RATE_HZ


def snac_config(decoder_dim: int = 256, codebook_size: int = 512) -> dict[str, Any]:
    """SNAC's settings at 24 kHz (as in hubertsiuzdak/snac_24khz), with smaller widths."""
    return {
        "sampling_rate": SAMPLE_RATE_HZ, "encoder_dim": 8, "encoder_rates": [2, 4, 8, 8], "decoder_dim": decoder_dim,
        "decoder_rates": [8, 8, 4, 2], "attn_window_size": None, "codebook_size": codebook_size, "codebook_dim": 8,
        "vq_strides": [4, 2, 1], "noise": True, "depthwise": True,
    }  # fmt: skip


def snake(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return x + torch.sin(alpha * x).square() / (alpha + 1e-9)


def shifted_products(self: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    """The `forward` of a depthwise convolution as a sum of shifted products."""
    step, length = self.dilation[0], x.shape[-1]
    assert self.bias is not None
    assert isinstance(self.padding[0], int)
    padded, y = F.pad(x, (self.padding[0], self.padding[0])), self.bias[:, None]
    for tap in range(self.weight.shape[-1]):
        y = y + self.weight[:, 0, tap, None] * padded[..., tap * step : tap * step + length]
    return y


def prepare_for_compile(decoder: nn.Module) -> nn.Module:
    """Swap what torch.compile cannot fuse for equal forms that it can: a quarter off each training step on a CPU.

    Changes `decoder` in place, and for this process SNAC's scripted `snake`; parameters and results stay the same.
    """
    snac.layers.snake = snake
    for layer in decoder.modules():
        if isinstance(layer, nn.Conv1d) and layer.groups > 1:
            layer.forward = types.MethodType(shifted_products, layer)
    return decoder


class Level(Protocol):
    """What of `snac.vq.VectorQuantize` is used here; snac has no types."""

    stride: int
    in_proj: nn.Conv1d
    out_proj: nn.Conv1d
    codebook: nn.Embedding

    def __call__(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    def decode_code(self, embed_id: torch.Tensor) -> torch.Tensor: ...


def levels_of(model: SNAC) -> list[Level]:
    """The quantizer's levels, coarse to fine."""
    return cast("list[Level]", list(model.quantizer.quantizers))


def pooled(level: Level, latents: torch.Tensor) -> torch.Tensor:
    """latents [batch, latent_dim, n] -> [batch, latent_dim, n / stride]"""
    return F.avg_pool1d(latents, level.stride) if level.stride > 1 else latents


class Quantized(NamedTuple):
    latents: torch.Tensor  # float32 [batch, latent_dim, n], differentiable straight through
    codes: list[torch.Tensor]  # int64 [batch, n / stride] of each level
    loss: torch.Tensor  # commitment and codebook loss
    encoded: list[torch.Tensor]  # float32 [batch, codebook_dim, n / stride] of each level


def quantize(model: SNAC, latents: torch.Tensor) -> Quantized:
    """SNAC's residual quantizer with what training needs beside the codes; latents float32 [batch, latent_dim, n], n divisible by 4."""
    total, residual, loss = torch.zeros_like(latents), latents, latents.new_zeros(())
    codes: list[torch.Tensor] = []
    seen: list[torch.Tensor] = []
    for level in levels_of(model):
        encoded = level.in_proj(pooled(level, residual))
        with torch.no_grad():
            flat = F.normalize(encoded.transpose(1, 2).reshape(-1, encoded.shape[1]))
            index = (flat @ F.normalize(level.codebook.weight).t()).argmax(1).view(encoded.shape[0], -1)
        chosen = level.decode_code(index)
        loss = loss + 0.25 * F.mse_loss(encoded, chosen.detach()) + F.mse_loss(chosen, encoded.detach())
        out = level.out_proj(encoded + (chosen - encoded).detach())
        out = out.repeat_interleave(level.stride, dim=-1) if level.stride > 1 else out
        total, residual = total + out, residual - out
        codes.append(index)
        seen.append(encoded.detach())
    return Quantized(total, codes, loss, seen)


def save_codec(folder: Path, model: SNAC, encoder: FeatureEncoder) -> None:
    """`folder/snac` as `SNAC.from_pretrained` loads it, and `folder/encoder.safetensors`."""
    target = folder / "snac"
    target.mkdir(parents=True, exist_ok=True)
    settings = snac_config(model.decoder_dim, model.codebook_size)
    (target / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    torch.save(model.state_dict(), target / "pytorch_model.bin")
    save_file(encoder.state_dict(), folder / "encoder.safetensors")


def load_codec(folder: Path) -> tuple[SNAC, FeatureEncoder]:
    """What `save_codec` wrote, in evaluation mode."""
    model = SNAC.from_pretrained(str(folder / "snac")).eval()
    encoder = FeatureEncoder(model.latent_dim).eval()
    encoder.load_state_dict(load_file(folder / "encoder.safetensors"))
    return model, encoder
