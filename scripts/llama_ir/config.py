"""The parts of a Hugging Face Llama `config.json` that shape its graph."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LlamaConfig:
    """Names are transformers'. inverse_frequencies: float32 [head_dim / 2], of the rotary embedding, in radians per position."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    inverse_frequencies: NDArray[np.float32]


def load_config(folder: Path) -> LlamaConfig:
    """Raises ValueError for a model that is no plain Llama: a wrong graph would speak, but nonsense."""
    path = folder / "config.json"
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for key, wanted in {"model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}.items():
        if raw.get(key, wanted) != wanted:
            raise ValueError(f"{path}: {key} is {raw[key]!r}; only {wanted!r} is supported")
    heads = int(raw["num_attention_heads"])
    head_dim = int(raw.get("head_dim") or raw["hidden_size"] // heads)
    return LlamaConfig(
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        num_hidden_layers=int(raw["num_hidden_layers"]),
        num_attention_heads=heads,
        num_key_value_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        vocab_size=int(raw["vocab_size"]),
        rms_norm_eps=float(raw["rms_norm_eps"]),
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        inverse_frequencies=_inverse_frequencies(path, raw, head_dim),
    )


def _inverse_frequencies(path: Path, raw: dict[str, Any], head_dim: int) -> NDArray[np.float32]:
    """Rotary frequencies with Llama 3's scaling where the config asks for it.

    transformers 4 writes `rope_theta` and `rope_scaling`, transformers 5 one `rope_parameters`. Llama 3.1's scaling leaves wavelengths
    below original_max_position_embeddings / high_freq_factor alone, stretches those above original / low_freq_factor by `factor`, and
    goes smoothly from one to the other between (meta-llama/llama-models, models/llama3/model.py, apply_scaling).
    """
    scaling: dict[str, Any] = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(scaling.get("rope_theta", raw.get("rope_theta", 10000.0)))
    frequencies = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "llama3":
        factor, low, high = (float(scaling[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
        turns = float(scaling["original_max_position_embeddings"]) * frequencies / (2 * math.pi)
        unscaled_share = np.clip((turns - low) / (high - low), 0.0, 1.0)
        frequencies = frequencies * (unscaled_share + (1 - unscaled_share) / factor)
    elif kind != "default":
        raise ValueError(f"{path}: rope type {kind!r} is not supported; 'default' and 'llama3' are")
    return frequencies.astype(np.float32)
