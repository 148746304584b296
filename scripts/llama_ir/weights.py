"""How a checkpoint's tensors are stored in the IR.

f32: as they are. f16: half the size, widened when the server loads them. int8: matrices as 8-bit integers with one scale per row
(output channel), which OpenVINO keeps in that form and multiplies with directly; norms stay f32.
"""

from __future__ import annotations

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
        tensor = checkpoint.float32(name, shape)
        if precision == "f32" or tensor.ndim == 1:
            return op.constant(tensor)
        return _half(tensor) if precision == "f16" else _rows_of_bytes(tensor)

    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; known are {', '.join(PRECISIONS)}")
    return node


def _half(tensor: NDArray[np.float32]) -> Any:
    """OpenVINO's own compression, for one tensor at a time: it also marks the widening, so that a plugin may keep the small form."""
    model = Model([op.result(op.constant(tensor))], [], "one tensor")
    compress_model_transformation(model)
    return model.get_results()[0].input_value(0).get_node()


def _rows_of_bytes(tensor: NDArray[np.float32]) -> Any:
    scale = np.maximum(np.abs(tensor).max(1, keepdims=True), np.finfo(np.float32).tiny) / np.float32(127)
    return op.multiply(op.convert(op.constant(np.rint(tensor / scale).astype(np.int8)), "f32"), op.constant(scale))
