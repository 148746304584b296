"""A Llama as a stateful OpenVINO graph, in the shape that OpenVINO's SDPA-to-PagedAttention pass recognises.

Inputs: `input_ids` int64 [batch, time], `attention_mask` int64 [batch, past + time] (0 = padding), `position_ids` int64 [batch, time],
`beam_idx` int32 [batch]. Output: `logits` float32 [batch, time, vocabulary]. Keys and values live in state variables
float32 [batch, key-value heads, past, head_dim]. These are the names and the state of optimum-intel's exports, so whatever
serves those serves this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from .config import LlamaConfig

Model: Any = ov.Model
"""Its stub is at odds with itself (openvino 2026.4.1)."""

Weights = Callable[[str, tuple[int, ...]], Any]
"""(tensor name, shape) -> a node that gives the tensor as float32, however it is stored."""

MASKED = np.float32(np.finfo(np.float16).min)
"""Added to the scores of positions that may not be looked at; finite, so that a row of padding alone gives no NaN."""


def build_model(config: LlamaConfig, weights: Weights) -> Any:
    return _Builder(config, weights).model()


def _ints(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def _float(value: float) -> Any:
    return op.constant(np.float32(value))


def _parameter(name: str, kind: type, rank: int) -> Any:
    node = op.parameter(ov.PartialShape([-1] * rank), kind, name=name)
    node.output(0).set_names({name})
    return node


class _Builder:
    """OpenVINO's nodes carry no static types, hence Any."""

    def __init__(self, config: LlamaConfig, weights: Weights) -> None:
        self._config, self._weights = config, weights
        self._ids = _parameter("input_ids", np.int64, 2)
        self._padding_mask = _parameter("attention_mask", np.int64, 2)
        self._positions = _parameter("position_ids", np.int64, 2)
        self._beams = _parameter("beam_idx", np.int32, 1)
        self._batch = op.gather(op.shape_of(self._ids), _ints(0), _ints(0))
        self._time = op.gather(op.shape_of(self._ids), _ints(1), _ints(0))
        self._cos, self._sin = self._rotary()
        self._bias = self._attention_bias()
        self._assigns: list[Any] = []

    def model(self) -> Any:
        c = self._config
        table = self._weights("model.embed_tokens.weight", (c.vocab_size, c.hidden_size))
        x = op.gather(table, self._ids, op.constant(np.int64(0)))
        for layer in range(c.num_hidden_layers):
            prefix = f"model.layers.{layer}."
            x = op.add(x, self._attention(layer, prefix + "self_attn.", self._norm(x, prefix + "input_layernorm.weight")))
            x = op.add(x, self._mlp(prefix + "mlp.", self._norm(x, prefix + "post_attention_layernorm.weight")))
        x = self._norm(x, "model.norm.weight")
        head = table if c.tie_word_embeddings else self._weights("lm_head.weight", (c.vocab_size, c.hidden_size))
        logits = op.matmul(x, head, False, True)
        logits.output(0).set_names({"logits"})
        inputs = [self._ids, self._padding_mask, self._positions, self._beams]
        return Model([op.result(logits, name="logits")], self._assigns, inputs, "llama")

    def _linear(self, x: Any, name: str, outputs: int, inputs: int) -> Any:
        return op.matmul(x, self._weights(name, (outputs, inputs)), False, True)

    def _norm(self, x: Any, name: str) -> Any:
        c = self._config
        mean_square = op.reduce_mean(op.power(x, _float(2)), _ints(-1), True)
        scale = op.divide(_float(1), op.sqrt(op.add(mean_square, _float(c.rms_norm_eps))))
        return op.multiply(self._weights(name, (c.hidden_size,)), op.multiply(x, scale))

    def _mlp(self, prefix: str, x: Any) -> Any:
        width, hidden = self._config.hidden_size, self._config.intermediate_size
        gate = op.swish(self._linear(x, prefix + "gate_proj.weight", hidden, width))
        return self._linear(
            op.multiply(gate, self._linear(x, prefix + "up_proj.weight", hidden, width)), prefix + "down_proj.weight", width, hidden
        )

    def _attention(self, layer: int, prefix: str, x: Any) -> Any:
        c = self._config
        query_width = c.num_attention_heads * c.head_dim

        def heads(name: str, count: int) -> Any:
            """-> [batch, heads, time, head_dim]"""
            y = self._linear(x, f"{prefix}{name}.weight", count * c.head_dim, c.hidden_size)
            return op.transpose(op.reshape(y, _ints(0, 0, count, c.head_dim), True), _ints(0, 2, 1, 3))

        query = self._rotate(heads("q_proj", c.num_attention_heads))
        key = self._shared_by_queries(self._remembered(f"{layer}.key", self._rotate(heads("k_proj", c.num_key_value_heads))))
        value = self._shared_by_queries(self._remembered(f"{layer}.value", heads("v_proj", c.num_key_value_heads)))
        y = op.scaled_dot_product_attention(query, key, value, self._bias, _float(c.head_dim**-0.5), False)
        y = op.reshape(op.transpose(y, _ints(0, 2, 1, 3)), _ints(0, 0, query_width), True)
        return self._linear(y, prefix + "o_proj.weight", c.hidden_size, query_width)

    def _remembered(self, name: str, current: Any) -> Any:
        """Append to the state; -> [batch, key-value heads, past + time, head_dim]"""
        c = self._config
        shape = [-1, c.num_key_value_heads, -1, c.head_dim]
        empty = op.broadcast(_float(0), op.concat([self._batch, _ints(c.num_key_value_heads, 0, c.head_dim)], 0))
        past = op.read_value(empty, f"past.{name}", np.float32, ov.PartialShape(shape))
        whole = op.concat([op.gather(past, self._beams, op.constant(np.int64(0))), current], 2)
        self._assigns.append(op.assign(whole, f"past.{name}"))
        return whole

    def _shared_by_queries(self, x: Any) -> Any:
        """Grouped-query attention: each key-value head serves the same number of query heads."""
        c = self._config
        groups = c.num_attention_heads // c.num_key_value_heads
        if groups == 1:
            return x
        spread = op.broadcast(op.unsqueeze(x, _ints(2)), _ints(1, 1, groups, 1, 1), broadcast_spec="BIDIRECTIONAL")
        return op.reshape(spread, _ints(0, c.num_attention_heads, -1, c.head_dim), True)

    def _rotary(self) -> tuple[Any, Any]:
        """-> cos and sin of the angles at `position_ids`, [batch, 1, time, head_dim]"""
        frequencies = op.constant(self._config.inverse_frequencies.reshape(1, -1, 1))
        shape = op.concat([self._batch, _ints(self._config.head_dim // 2, 1)], 0)
        positions = op.convert(op.unsqueeze(self._positions, _ints(1)), "f32")
        angles = op.transpose(op.matmul(op.broadcast(frequencies, shape), positions, False, False), _ints(0, 2, 1))
        both = op.concat([angles, angles], -1)
        return op.unsqueeze(op.cos(both), _ints(1)), op.unsqueeze(op.sin(both), _ints(1))

    def _rotate(self, x: Any) -> Any:
        half, end = self._config.head_dim // 2, np.iinfo(np.int64).max
        first = op.slice(x, _ints(0), _ints(half), _ints(1), _ints(3))
        second = op.slice(x, _ints(half), _ints(end), _ints(1), _ints(3))
        turned = op.concat([op.multiply(second, _float(-1)), first], -1)
        return op.add(op.multiply(x, self._cos), op.multiply(turned, self._sin))

    def _attention_bias(self) -> Any:
        """0 where a query may look at a key and MASKED where it may not: [batch, 1, time, past + time].

        Paged attention has its own mask; there this part falls away.
        """
        total = op.gather(op.shape_of(self._padding_mask), _ints(1), _ints(0))
        zero, one = op.constant(np.int64(0)), op.constant(np.int64(1))
        keys = op.range(zero, op.squeeze(total, zero), one, "i64")
        queries = op.range(op.squeeze(op.subtract(total, self._time), zero), op.squeeze(total, zero), one, "i64")
        causal = op.less_equal(op.unsqueeze(keys, _ints(0)), op.unsqueeze(queries, _ints(1)))
        real = op.unsqueeze(op.not_equal(self._padding_mask, zero), _ints(1, 2))
        return op.select(op.logical_and(real, op.unsqueeze(causal, _ints(0, 1))), _float(0), _float(float(MASKED)))
