"""`engine.yaml`, beside the weights: how TensorRT-LLM runs this model on this machine. The file may be absent; a key it does not know is an
error. docs/tensorrt_llm.md explains every key."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

FILE = "engine.yaml"


@dataclass(frozen=True)
class EngineConfig:
    """tensor_parallel_size: GPUs that share one model.
    max_batch_size: generations in one step; 0 for as many as there are streams.
    max_num_tokens: tokens of one step, prompts included.
    max_seq_len: of prompt and speech of one generation. The checkpoint's own 131,072 would size every buffer for what never happens.
    kv_cache_fraction: of the GPU memory that is free once the weights are loaded. The codec lives on the same GPU and takes its memory
    before or after, so the library's 0.9 is too much.
    kv_cache_dtype: auto or fp8; empty for fp8 where the checkpoint was quantized with it.
    block_reuse: keep a prompt's computed blocks for the next prompt that begins alike: a voice's prefix is computed once.
    chunked_prefill: long prompts share steps with running generations.
    cuda_graphs: record the decoding step for batch sizes up to max_batch_size. cuda_graph_padding: round a batch up to a recorded size.
    stream_interval: tokens from one update to the next; 0 for a frame's 7, where the release sends the first token at once all the same.
    dtype: of the weights that are not quantized.
    """

    tensor_parallel_size: int = 1
    max_batch_size: int = 0
    max_num_tokens: int = 4096
    max_seq_len: int = 4096
    kv_cache_fraction: float = 0.6
    kv_cache_dtype: str = ""
    block_reuse: bool = True
    chunked_prefill: bool = True
    cuda_graphs: bool = True
    cuda_graph_padding: bool = True
    stream_interval: int = 0
    dtype: str = "auto"


_LEAST = {"tensor_parallel_size": 1, "max_batch_size": 0, "max_num_tokens": 16, "max_seq_len": 16, "stream_interval": 0}
_CHOICES = {"kv_cache_dtype": ("", "auto", "fp8"), "dtype": ("auto", "bfloat16", "float16")}


def load_engine_config(folder: Path) -> EngineConfig:
    """Of a voice's folder. Raises ValueError that names the file and the key."""
    import yaml

    path = folder / FILE
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ValueError(f"{path} must hold keys and values")
    given = cast("dict[str, Any]", raw)
    kinds: dict[str, type] = {field.name: cast(type, type(field.default)) for field in fields(EngineConfig)}
    for key, value in given.items():
        if key not in kinds:
            raise ValueError(f"{path}: unknown key {key!r}; known are {', '.join(kinds)}")
        wanted = kinds[key]
        # bool is a kind of int, and a fraction may be written as 1.
        fits = (
            isinstance(value, bool)
            if wanted is bool
            else not isinstance(value, bool) and isinstance(value, (wanted, *_WIDER.get(wanted, ())))
        )
        if not fits:
            raise ValueError(f"{path}: {key} must be {wanted.__name__}, not {value!r}")
        if key in _LEAST and value < _LEAST[key]:
            raise ValueError(f"{path}: {key} must be at least {_LEAST[key]}, not {value}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ValueError(f"{path}: {key} must be one of {', '.join(filter(None, _CHOICES[key]))}, not {value!r}")
    config = EngineConfig(**given)
    if not 0 < config.kv_cache_fraction < 1:
        raise ValueError(f"{path}: kv_cache_fraction must lie between 0 and 1, not {config.kv_cache_fraction}")
    return config


_WIDER: dict[type, tuple[type, ...]] = {float: (int,)}


def kv_cache_dtype(config: EngineConfig, folder: Path) -> str:
    """What the configuration says, else what the checkpoint was quantized for (NVIDIA ModelOpt's hf_quant_config.json)."""
    if config.kv_cache_dtype:
        return config.kv_cache_dtype
    path = folder / "hf_quant_config.json"
    if not path.is_file():
        return "auto"
    quantization = json.loads(path.read_text(encoding="utf-8")).get("quantization", {})
    return "fp8" if quantization.get("kv_cache_quant_algo") == "FP8" else "auto"
