"""The exported graph against Llama written out in numpy, in double precision."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from export_lm import export
from llama_ir.config import load_config
from llama_ir.size import exported_bytes
from llama_ir.weights import packed, quantised_to_nibbles
from numpy.typing import NDArray
from speech_lm.engines import EngineOptions, Sampling
from speech_lm.engines.openvino import OpenVinoEngine
from support.generations import hear, run

Array = NDArray[np.float64]
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}

PLAIN: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "max_position_embeddings": 512,
}  # fmt: skip
LIKE_LLAMA_3_2: dict[str, Any] = PLAIN | {
    "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True, "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    },
}  # fmt: skip
TRANSFORMERS_5: dict[str, Any] = {k: v for k, v in LIKE_LLAMA_3_2.items() if not k.startswith("rope_")} | {
    "rope_parameters": LIKE_LLAMA_3_2["rope_scaling"] | {"rope_theta": 500000.0}
}


def make_checkpoint(folder: Path, config: dict[str, Any], dtype: str = "float32", shards: int = 1) -> dict[str, Array]:
    """Random weights under Hugging Face's names, as stored (rounded to dtype)."""
    import safetensors.torch
    import torch

    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    width, hidden, keys = config["hidden_size"], config["intermediate_size"], config.get("num_key_value_heads", heads) * head_dim
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in {
            "input_layernorm": (width,), "post_attention_layernorm": (width,), "self_attn.q_proj": (heads * head_dim, width),
            "self_attn.k_proj": (keys, width), "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, heads * head_dim),
            "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width), "mlp.down_proj": (width, hidden),
        }.items():  # fmt: skip
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    torch.manual_seed(0)
    tensors = {name: (torch.randn(shape) * (1.0 if len(shape) == 1 else 0.3)).to(getattr(torch, dtype)) for name, shape in shapes.items()}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    else:
        places = {name: f"model-{i % shards}.safetensors" for i, name in enumerate(tensors)}
        for file in set(places.values()):
            safetensors.torch.save_file({name: tensors[name] for name, place in places.items() if place == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return {name: tensor.double().numpy() for name, tensor in tensors.items()}


def reference_logits(config: dict[str, Any], weights: dict[str, Array], ids: list[int]) -> Array:
    """[time, vocabulary]"""
    heads = config["num_attention_heads"]
    keys, head_dim = config.get("num_key_value_heads", heads), config.get("head_dim", config["hidden_size"] // heads)
    angles = np.outer(np.arange(len(ids)), [reference_frequency(config, head_dim, i) for i in range(head_dim // 2)])

    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[f"{name}.weight"]

    def rotated(x: Array) -> Array:
        pairs = x[..., : head_dim // 2] + 1j * x[..., head_dim // 2 :]
        turned = pairs * np.exp(1j * angles)[:, None]
        return np.concatenate([turned.real, turned.imag], -1)

    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."

        def project(x: Array, name: str, prefix: str = prefix) -> Array:
            return x @ weights[f"{prefix}{name}.weight"].T

        y = norm(x, prefix + "input_layernorm")
        query = rotated(project(y, "self_attn.q_proj").reshape(len(ids), heads, head_dim))
        key = rotated(project(y, "self_attn.k_proj").reshape(len(ids), keys, head_dim))
        value = project(y, "self_attn.v_proj").reshape(len(ids), keys, head_dim)
        heard = np.zeros_like(query)
        for head in range(heads):
            shared = head // (heads // keys)
            for now in range(len(ids)):
                scores = np.exp(key[: now + 1, shared] @ query[now, head] / math.sqrt(head_dim))
                heard[now, head] = scores / scores.sum() @ value[: now + 1, shared]
        x = x + project(heard.reshape(len(ids), -1), "self_attn.o_proj")
        y = norm(x, prefix + "post_attention_layernorm")
        gate = project(y, "mlp.gate_proj")
        x = x + project(gate / (1 + np.exp(-gate)) * project(y, "mlp.up_proj"), "mlp.down_proj")
    return norm(x, "model.norm") @ weights.get("lm_head.weight", weights["model.embed_tokens.weight"]).T


def reference_frequency(config: dict[str, Any], head_dim: int, index: int) -> float:
    """Llama 3.1's rule, case by case. (meta-llama/llama-models, models/llama3/model.py)"""
    scaling: dict[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    frequency: float = (config.get("rope_theta") or scaling["rope_theta"]) ** (-2 * index / head_dim)
    if not scaling:
        return frequency
    wavelength = 2 * math.pi / frequency
    original: float = scaling["original_max_position_embeddings"]
    if wavelength < original / scaling["high_freq_factor"]:
        return frequency
    if wavelength > original / scaling["low_freq_factor"]:
        return frequency / scaling["factor"]
    share: float = (original / wavelength - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
    return (1 - share) * frequency / scaling["factor"] + share * frequency


class Exported:
    """The graph as it is, with its state, on the processor."""

    def __init__(self, model: Path, properties: dict[str, Any] = EXACT) -> None:
        self._request: Any = ov.Core().compile_model(model, "CPU", properties).create_infer_request()

    def logits(self, ids: list[int], pieces: tuple[int, ...] = (), left_padding: int = 0) -> NDArray[np.float32]:
        """[time, vocabulary], computed in pieces that end at the given places."""
        self._request.reset_state()
        whole, positions = [0] * left_padding + ids, [0] * left_padding + list(range(len(ids)))
        mask, found = [0] * left_padding + [1] * len(ids), list[NDArray[np.float32]]()
        for begin, end in zip([0, *pieces], [*pieces, len(whole)], strict=True):
            inputs = {"input_ids": whole[begin:end], "attention_mask": mask[:end], "position_ids": positions[begin:end]}
            answer = self._request.infer({k: np.array([v], np.int64) for k, v in inputs.items()} | {"beam_idx": np.zeros(1, np.int32)})
            found.append(answer["logits"][0].copy())
        return np.concatenate(found)[left_padding:]


IDS = [int(i) for i in np.random.default_rng(1).integers(0, 96, 80)]


@pytest.mark.parametrize(
    ("config", "dtype", "shards"),
    [(PLAIN, "float32", 1), (LIKE_LLAMA_3_2, "bfloat16", 3), (TRANSFORMERS_5, "float16", 2)],
    ids=["plain", "like Llama 3.2", "config of transformers 5"],
)
def test_logits_are_those_of_llama(tmp_path: Path, config: dict[str, Any], dtype: str, shards: int) -> None:
    weights = make_checkpoint(tmp_path / "checkpoint", config, dtype, shards)
    exported = Exported(export(tmp_path / "checkpoint", tmp_path / "ir", "f32"))
    wanted = reference_logits(config, weights, IDS)
    assert wanted.std() > 1
    for pieces, left_padding in (((), 0), ((30, 31, 32, 60), 0), ((), 5)):
        np.testing.assert_allclose(exported.logits(IDS, pieces, left_padding), wanted, atol=2e-3)


@pytest.mark.parametrize(("precision", "relative_error"), [("f16", 2e-3), ("int8", 5e-2), ("int4", 0.5)])
def test_smaller_precisions_stay_close_and_small(tmp_path: Path, precision: str, relative_error: float) -> None:
    weights = make_checkpoint(tmp_path / "checkpoint", LIKE_LLAMA_3_2)
    model = export(tmp_path / "checkpoint", tmp_path / precision, precision)
    wanted = reference_logits(LIKE_LLAMA_3_2, weights, IDS)
    error = Exported(model).logits(IDS) - wanted
    assert 0 < error.std() < relative_error * wanted.std()
    whole = export(tmp_path / "checkpoint", tmp_path / "f32", "f32")
    assert model.with_suffix(".bin").stat().st_size < 0.6 * whole.with_suffix(".bin").stat().st_size


def as_stored(name: str, tensor: Array, precision: str) -> Array:
    """What a reader of the IR's format would make of a tensor, group by group, in double precision."""
    if tensor.ndim == 1:
        return tensor
    if precision == "int8" or name in ("model.embed_tokens.weight", "lm_head.weight"):
        scale = np.abs(tensor).max(1, keepdims=True) / 127
        return np.rint(tensor / scale) * scale
    groups = tensor.reshape(-1, math.gcd(tensor.shape[1], 64))
    low, high = np.minimum(groups.min(1, keepdims=True), 0), np.maximum(groups.max(1, keepdims=True), 0)
    scale = ((high - low) / 15).astype(np.float16).astype(np.float64)
    zero = np.rint(-low / scale)
    return ((np.clip(np.rint(groups / scale) + zero, 0, 15) - zero) * scale).reshape(tensor.shape)


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_graph_reads_what_was_rounded(tmp_path: Path, precision: str, tied: bool) -> None:
    """The rounded weights in the reference, so that only the order of sums and half-way cases are left: a wrong nibble order, zero point or
    group shows. Measured against the whole spread of the logits."""
    config = LIKE_LLAMA_3_2 | {"tie_word_embeddings": tied}
    weights = make_checkpoint(tmp_path / "checkpoint", config)
    exported = Exported(export(tmp_path / "checkpoint", tmp_path / "ir", precision))
    wanted = reference_logits(config, {name: as_stored(name, tensor, precision) for name, tensor in weights.items()}, IDS)
    assert np.abs(exported.logits(IDS) - wanted).max() < 1e-2 * wanted.std()


@pytest.mark.parametrize("precision", ["f32", "f16", "int8", "int4"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_size_is_known_before(tmp_path: Path, precision: str, tied: bool) -> None:
    """Wide enough that norms and scales of rows are little beside the matrices."""
    config = LIKE_LLAMA_3_2 | {
        "hidden_size": 512,
        "intermediate_size": 1024,
        "vocab_size": 1000,
        "head_dim": 128,
        "tie_word_embeddings": tied,
    }
    make_checkpoint(tmp_path / "checkpoint", config)
    size = export(tmp_path / "checkpoint", tmp_path / "ir", precision).with_suffix(".bin").stat().st_size
    assert exported_bytes(load_config(tmp_path / "checkpoint"), precision) == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("shape", [(3, 64), (5, 1, 7), (2, 4, 16)])
def test_nibbles_round_to_the_nearest(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x.flat[0] = 0
    integers, zeros, scales = quantised_to_nibbles(x)
    assert (integers.max(), zeros.max()) <= (15, 15)
    back = (integers.astype(np.float32) - zeros) * scales.astype(np.float32)
    assert back.flat[0] == 0
    assert (np.abs(back - x) <= 1.01 * scales.astype(np.float32)).all()  # half a step, and as much again where the zero point was rounded
    both = packed(integers)
    np.testing.assert_array_equal(np.stack([both & 15, both >> 4], 1).reshape(-1)[: integers.size], integers.reshape(-1))


@pytest.mark.parametrize("x", [np.zeros((2, 8)), np.full((2, 8), 0.5), np.full((2, 8), -3.0), np.full((2, 8), 1e-9)])
def test_nibbles_of_uniform_groups(x: Array) -> None:
    integers, zeros, scales = quantised_to_nibbles(x.astype(np.float32))
    np.testing.assert_allclose((integers.astype(np.float32) - zeros) * scales.astype(np.float32), x, rtol=2e-3, atol=1e-8)


def test_continuous_batching_says_what_llama_says(tmp_path: Path) -> None:
    """Paged attention replaces the graph's own; grouped queries and scaled rotation included."""
    weights = make_checkpoint(tmp_path / "checkpoint", LIKE_LLAMA_3_2)
    export(tmp_path / "checkpoint", tmp_path / "ir", "f32")
    prompts = [IDS[:40], IDS[10:17], IDS[5:6]]

    async def said() -> list[list[int]]:
        engine = OpenVinoEngine(tmp_path / "ir", EngineOptions(threads=0, max_streams=4))
        await engine.start()
        try:
            assert engine.max_context_tokens == PLAIN["max_position_embeddings"]
            greedy = Sampling(0, 1, 0, 1, seed=None, max_tokens=8, stop_ids=frozenset())
            return [(await hear(engine.submit(prompt, greedy))).ids for prompt in prompts]
        finally:
            await engine.close()

    for prompt, ids in zip(prompts, run(said()), strict=True):
        logits = reference_logits(LIKE_LLAMA_3_2, weights, prompt + ids)[len(prompt) - 1 : -1]
        # The engine computes in half precision: what it says must be the best or all but the best.
        assert (logits.max(-1) - logits[np.arange(8), ids] < 0.05 * logits.std()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "qwen2"}, "model_type"), ({"attention_bias": True}, "attention_bias"), ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"), ({"vocab_size": 97}, "shape"), ({"num_hidden_layers": 3}, "no tensor"),
    ],
)  # fmt: skip
def test_what_is_no_plain_llama_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    make_checkpoint(tmp_path / "checkpoint", PLAIN)
    (tmp_path / "checkpoint" / "config.json").write_text(json.dumps(PLAIN | change))
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "checkpoint", tmp_path / "ir", "f32")


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "checkpoint", PLAIN)
    with pytest.raises(ValueError, match="int3"):
        export(tmp_path / "checkpoint", tmp_path / "ir", "int3")
