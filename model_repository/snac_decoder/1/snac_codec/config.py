"""A SNAC checkpoint's `config.json`, as far as decoding needs it (hubertsiuzdak/snac, snac/snac.py: the constructor's arguments)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

CODES_PER_FRAME = 7
SLOTS_OF_LEVEL = ((0,), (1, 4), (2, 3, 5, 6))
"""Orpheus's order of a frame's codes, by level (canopyai/Orpheus-TTS, orpheus_tts/decoder.py)."""


@dataclass(frozen=True)
class CodecConfig:
    """decoder_rates: upsampling of each decoder block; vq_strides: latents per code of each level."""

    sampling_rate: int
    decoder_rates: tuple[int, ...]
    vq_strides: tuple[int, ...]
    codebook_size: int
    attn_window_size: int | None
    noise: bool

    @property
    def samples_per_latent(self) -> int:
        return math.prod(self.decoder_rates)

    @property
    def latents_per_frame(self) -> int:
        return self.vq_strides[0]

    @property
    def samples_per_frame(self) -> int:
        return self.latents_per_frame * self.samples_per_latent


def load_config(folder: Path) -> CodecConfig:
    """Raises ValueError that names the file for a missing, broken or unfit one."""
    path = folder / "config.json"
    try:
        raw = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
        config = CodecConfig(
            sampling_rate=int(raw["sampling_rate"]),
            decoder_rates=tuple(map(int, raw["decoder_rates"])),
            vq_strides=tuple(map(int, raw["vq_strides"])),
            codebook_size=int(raw["codebook_size"]),
            attn_window_size=raw.get("attn_window_size"),
            noise=bool(raw.get("noise", True)),
        )
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: a codec folder holds config.json and decoder.onnx") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no SNAC config: {error!r}") from None
    if sum(config.vq_strides[0] // s for s in config.vq_strides) != CODES_PER_FRAME or len(config.vq_strides) != 3:
        raise ValueError(f"{path}: vq_strides {list(config.vq_strides)} do not make the 7 codes per frame of SNAC 24 kHz (4, 2, 1)")
    if config.attn_window_size is not None:
        raise ValueError(f"{path}: a decoder with attention has no finite receptive field and cannot be streamed exactly")
    return config


def check_codebook_size(path: Path, made_for: str | None, config: CodecConfig) -> None:
    """made_for: what the decoder's file says. Raises ValueError where config.json says otherwise."""
    if made_for != str(config.codebook_size):
        raise ValueError(f"{path} was made for a codebook size of {made_for}, config.json says {config.codebook_size}")
