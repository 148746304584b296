"""How a checkpoint's tensors are stored in the IR.

f32: as they are. f16: half the size, widened when the server loads them. int8: matrices as 8-bit integers with one scale per row
(output channel). int4: matrices as 4-bit integers with a zero point and a float16 scale for every GROUP numbers of a row, but the
embedding and the head, whose rows are the tokens themselves, as int8. OpenVINO keeps both in that form and multiplies with them directly.
Norms stay f32. Rounding is to the nearest, without calibration data: it needs one pass over the checkpoint and numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from openvino._offline_transformations import compress_model_transformation

from .checkpoint import Checkpoint
from .graph import Model, Weights

PRECISIONS = ("f32", "f16", "int8", "int4")
GROUP = 64
"""Numbers of a row that share a scale in int4, or the largest divisor of it that divides the row: 4.31 bits a number with scale and zero
point. 128 would be 4.16, with larger errors."""
MOST = 15
TOKEN_TABLES = ("model.embed_tokens.weight", "lm_head.weight")


def stored_as(precision: str, checkpoint: Checkpoint) -> Weights:
    def node(name: str, shape: tuple[int, ...]) -> Any:
        blocks = checkpoint.blocks(name, shape)
        if precision == "f32" or len(shape) == 1:
            return _constant(_filled(np.empty(shape, np.float32), blocks))
        if precision == "f16":
            return _widened(_constant(_filled(np.empty(shape, np.float16), blocks)))
        if precision == "int8" or name in TOKEN_TABLES:
            return _rows_of_bytes(shape, blocks)
        return _groups_of_nibbles(shape, blocks)

    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; known are {', '.join(PRECISIONS)}")
    return node


def _constant(array: NDArray[Any]) -> Any:
    """Without a copy: a large model lies in memory once."""
    return op.constant(array, shared_memory=True)


def _filled(array: NDArray[Any], blocks: Iterable[NDArray[np.float32]]) -> NDArray[Any]:
    begin = 0
    for block in blocks:
        array[begin : begin + len(block)] = block
        begin += len(block)
    return array


def _widened(half: Any) -> Any:
    """float16 to float32, marked as OpenVINO's own compression marks it, so that a plugin may keep the small form.

    Python cannot set the mark; so a small tensor is compressed and its place is taken.
    """
    model = Model([op.result(op.constant(np.zeros(1, np.float32)))], [], "one tensor")
    compress_model_transformation(model)
    widening: Any = model.get_results()[0].input_value(0).get_node()
    widening.set_argument(0, half.output(0))
    widening.validate_and_infer_types()
    return widening


def _rows_of_bytes(shape: tuple[int, ...], blocks: Iterable[NDArray[np.float32]]) -> Any:
    integers, scales = np.empty(shape, np.int8), np.empty((shape[0], 1), np.float32)
    begin = 0
    for block in blocks:
        scale = np.maximum(np.abs(block).max(1, keepdims=True), np.finfo(np.float32).tiny) / np.float32(127)
        integers[begin : begin + len(block)] = np.rint(block / scale)
        scales[begin : begin + len(block)] = scale
        begin += len(block)
    return op.multiply(op.convert(_constant(integers), "f32"), _constant(scales))


def _groups_of_nibbles(shape: tuple[int, ...], blocks: Iterable[NDArray[np.float32]]) -> Any:
    """The pattern that OpenVINO's plugins look for (and NNCF writes): (u4 - u4) * f16, reshaped to rows, widened."""
    rows, columns = shape
    size = math.gcd(columns, GROUP)
    groups = columns // size
    integers = np.empty((rows, columns // 2), np.uint8)
    zeros, scales = np.empty((rows, groups, 1), np.uint8), np.empty((rows, groups, 1), np.float16)
    begin = 0
    for block in blocks:
        part = slice(begin, begin + len(block))
        numbers, zeros[part], scales[part] = quantised_to_nibbles(block.reshape(-1, groups, size))
        integers[part] = packed(numbers).reshape(-1, columns // 2)
        begin += len(block)
    nibbles = op.convert(_nibbles(integers, (rows, groups, size)), "f16")
    shifted = op.subtract(nibbles, op.convert(_nibbles(packed(zeros), zeros.shape), "f16"))
    whole = op.reshape(op.multiply(shifted, _constant(scales)), op.constant(np.array(shape, np.int64)), False)
    return op.convert(whole, "f32")


def quantised_to_nibbles(x: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float16]]:
    """x [..., group] -> integers of its shape, zero points and scales [..., 1]; x is about (integer - zero point) * scale.

    The range of a group always holds 0, so that a zero point fits 4 bits and a weight of 0 stays 0.
    """
    low, high = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    scale = np.maximum((high - low) / np.float32(MOST), np.finfo(np.float16).smallest_normal).astype(np.float16)
    wide = scale.astype(np.float32)
    zero = np.clip(np.rint(-low / wide), 0, MOST)
    return np.clip(np.rint(x / wide) + zero, 0, MOST).astype(np.uint8), zero.astype(np.uint8), scale


def packed(integers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Two to a byte in C order, the first in the lower half; uint8 [ceil(size / 2)]."""
    flat = integers.reshape(-1)
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    return np.bitwise_or(flat[0::2], np.left_shift(flat[1::2], 4), dtype=np.uint8)


def _nibbles(packed_bytes: NDArray[np.uint8], shape: tuple[int, ...]) -> Any:
    """A copy: a constant that shares a tensor's memory does not keep alive the array that the tensor was made from (2026.4.1)."""
    tensor: Any = ov.Tensor(packed_bytes, ov.Shape(shape), ov.Type.u4)
    return op.constant(tensor, shared_memory=False)
