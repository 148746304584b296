"""How much memory a language model, its key-value cache and the codec need. Pure arithmetic on a checkpoint's config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOKENS_PER_S = 7 * 24000 / 2048
"""Of speech: 7 tokens a frame of 2048 samples at 24 kHz."""
PROMPT_TOKENS = 128
"""A segment's text; the server's segments are sentences."""
LIBRARY_BYTES = 3 << 30
"""Assumed, not measured: CUDA contexts, workspaces and recorded graphs of TensorRT-LLM beside weights and cache."""
CODEC_BYTES = 2 << 30
"""Assumed, not measured: SNAC 24 kHz has 50 MB of weights; the rest is activations of 32 tiles and its recorded graphs."""


@dataclass(frozen=True)
class LlamaShape:
    layers: int
    key_value_heads: int
    head_dim: int

    @staticmethod
    def of(config: Mapping[str, Any]) -> LlamaShape:
        """config: a Hugging Face Llama's config.json. Raises KeyError for a key that it lacks."""
        heads = int(config["num_attention_heads"])
        return LlamaShape(
            layers=int(config["num_hidden_layers"]),
            key_value_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
        )

    def cache_bytes_per_token(self, bytes_per_value: int) -> int:
        """Keys and values of all layers."""
        return 2 * self.layers * self.key_value_heads * self.head_dim * bytes_per_value


@dataclass(frozen=True)
class Budget:
    """Bytes. cache: what all streams together need; left: of `total` once everything has its place, negative where it does not fit."""

    total: int
    weights: int
    cache: int
    library: int
    codec: int

    @property
    def left(self) -> int:
        return self.total - self.weights - self.cache - self.library - self.codec

    def text(self) -> str:
        parts = ", ".join(f"{name} {getattr(self, name) / 1e9:.1f}" for name in ("weights", "cache", "library", "codec"))
        return f"{parts} of {self.total / 1e9:.1f} GB"


def cache_tokens(streams: int, segment_s: float) -> int:
    """Tokens in the cache when every stream is at the end of a segment of so many seconds."""
    return streams * (PROMPT_TOKENS + round(segment_s * TOKENS_PER_S))


def gpu_budget(total: int, weights: int, shape: LlamaShape, bytes_per_value: int, streams: int, segment_s: float) -> Budget:
    """For a language model and the codec that share one GPU of `total` bytes."""
    cache = cache_tokens(streams, segment_s) * shape.cache_bytes_per_token(bytes_per_value)
    return Budget(total, weights, cache, LIBRARY_BYTES, CODEC_BYTES)
