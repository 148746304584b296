"""How large an export becomes, before it is made."""

from __future__ import annotations

from dataclasses import dataclass

from .config import LlamaConfig

BITS_PER_NUMBER = {"f32": 32.0, "f16": 16.0, "int8": 8.0, "int4": 4.0 + (4 + 16) / 64}
"""Of a matrix; int4 with a zero point and a float16 scale for every 64 numbers. int8's scales, one float32 a row, are left out."""


@dataclass(frozen=True)
class ParameterCounts:
    """tables: the embedding, and the head where it is one of its own; matrices: the layers'."""

    tables: int
    matrices: int


def parameter_counts(config: LlamaConfig) -> ParameterCounts:
    """Norms, some thousandths of it all, are left out."""
    width, queries = config.hidden_size, config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    layer = 2 * width * queries + 2 * width * keys + 3 * width * config.intermediate_size
    return ParameterCounts(config.vocab_size * width * (1 if config.tie_word_embeddings else 2), layer * config.num_hidden_layers)


def exported_bytes(config: LlamaConfig, precision: str) -> int:
    counts = parameter_counts(config)
    table_bits = BITS_PER_NUMBER["int8" if precision == "int4" else precision]
    return int(counts.tables * table_bits + counts.matrices * BITS_PER_NUMBER[precision]) // 8
