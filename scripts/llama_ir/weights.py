"""How a checkpoint's tensors are stored in the IR.

f32: as they are. f16: half the size, widened when the server loads them. int8: matrices as 8-bit integers with one scale per row
(output channel), which OpenVINO keeps in that form and multiplies with directly; norms stay f32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openvino import opset13 as op
from openvino._offline_transformations import compress_model_transformation

from .checkpoint import Checkpoint
from .graph import Model, Weights

PRECISIONS = ("f32", "f16", "int8")


def stored_as(precision: str, checkpoint: Checkpoint) -> Weights:
    def node(name: str, shape: tuple[int, ...]) -> Any:
        blocks = checkpoint.blocks(name, shape)
        if precision == "f32" or len(shape) == 1:
            return op.constant(_filled(np.empty(shape, np.float32), blocks))
        if precision == "f16":
            return _widened(op.constant(_filled(np.empty(shape, np.float16), blocks)))
        return _rows_of_bytes(shape, blocks)

    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; known are {', '.join(PRECISIONS)}")
    return node


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
    return op.multiply(op.convert(op.constant(integers), "f32"), op.constant(scales))
