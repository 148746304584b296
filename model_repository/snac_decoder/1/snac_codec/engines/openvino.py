"""The codec on OpenVINO, for processors: one compiled model for each tile size, one core for each forward.

OpenVINO compiles a graph of fixed shapes into few, fused loops, 1.6 to 3 times faster than ONNX Runtime runs it; on shapes that may change
it is slower (docs/log.md).
"""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import check_codebook_size, load_config
from ..tiles import TileInputs, tile_reach

SQUARED_COSINE = (0.9999996108, -9.869491258, 32.46436331, -42.63619854, 29.39701946, -10.53839115)
"""cos(pi u)^2 as a polynomial in u^2 for u from -1/2 to 1/2: a minimax fit, largest error 4e-7, 7e-7 in float32."""


class OpenVinoEngine:
    """folder: config.json and decoder.onnx. sizes: of the tiles, in latents. threads: forwards side by side. Raises ValueError for files
    that do not fit."""

    max_rows = 1  # more rows do not help a processor: the activations leave its cache

    def __init__(self, folder: Path, sizes: tuple[int, ...], threads: int) -> None:
        import openvino

        ov: Any = openvino
        self.config = load_config(folder)
        self.sizes, self.calls = sizes, threads
        path = folder / "decoder.onnx"
        if not path.is_file():
            raise ValueError(f"{path} is missing: scripts/export_codec.py makes it from a SNAC checkpoint")
        core = ov.Core()
        try:
            model: Any = core.read_model(str(path))
            made_for = model.get_rt_info(["framework", "codebook_size"]).astype(str)
        except Exception as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        check_codebook_size(path, made_for, self.config)
        square_sines(model)
        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        self._compiled: dict[int, Any] = {}
        for size in sizes:
            length = size + 2 * tile_reach(self.config.decoder_rates)
            model.reshape({"codes": [1, len(self.config.vq_strides), length], "position": [1], "valid": [1, 2]})
            self._compiled[size] = core.compile_model(model, "CPU", options)
        self._local = threading.local()

    def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
        size = inputs.codes.shape[2] - 2 * tile_reach(self.config.decoder_rates)
        requests: dict[int, Any] = self._local.__dict__.setdefault("requests", {})
        if size not in requests:
            requests[size] = self._compiled[size].create_infer_request()
        tensors = {"codes": inputs.codes, "position": inputs.position, "valid": inputs.valid}
        return requests[size].infer(tensors, share_inputs=True)["audio"]

    def close(self) -> None:
        self._compiled.clear()


def square_sines(model: Any) -> None:
    """Put a polynomial in place of each sin(x)^2 of the graph: OpenVINO's sine is a scalar loop, a chain of products and sums becomes part
    of the loop around it."""
    import openvino

    ov: Any = openvino
    ops = ov.opset13
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Multiply":
            continue
        sines = [node.input_value(i).get_node() for i in range(2)]
        if sines[0].get_type_name() != "Sin" or sines[0].get_friendly_name() != sines[1].get_friendly_name():
            continue
        # sin(x)^2 has the period pi: with u = x / pi less its whole part and a half, it is cos(pi u)^2, even in u.
        turns = ops.multiply(sines[0].input_value(0), np.float32(1 / math.pi))
        u = ops.subtract(ops.subtract(turns, ops.floor(turns)), np.float32(0.5))
        v = ops.multiply(u, u)
        result: Any = ops.constant(np.float32(SQUARED_COSINE[-1]))
        for coefficient in reversed(SQUARED_COSINE[:-1]):
            result = ops.add(ops.multiply(result, v), np.float32(coefficient))
        node.output(0).replace(result.output(0))
    model.validate_nodes_and_infer_types()
