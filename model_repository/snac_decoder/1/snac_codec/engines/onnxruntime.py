"""The codec on ONNX Runtime: on a processor, or on an NVIDIA GPU through its CUDA or TensorRT provider (package onnxruntime-gpu)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import check_codebook_size, load_config
from ..tiles import TileInputs, tile_reach
from .rows import pad_rows, row_counts

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}


class OnnxRuntimeEngine:
    """folder: config.json and decoder.onnx. device: cpu, cuda or tensorrt; precision: float32, for tensorrt also float16. Raises ValueError
    for files, devices or precisions that do not fit.

    On a processor a forward runs on one core; on a GPU rows are filled up to a power of two, so that few shapes are ever seen.
    """

    def __init__(self, folder: Path, sizes: tuple[int, ...], threads: int, max_rows: int, device: str, precision: str) -> None:
        import onnxruntime

        ort: Any = onnxruntime
        self.config = load_config(folder)
        self.sizes = sizes
        self.max_rows, self.calls = (1, threads) if device == "cpu" else (max_rows, 1)
        self._rows = row_counts(self.max_rows)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Silence and fading tails make denormals, which cost many times a normal product.
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        path = folder / "decoder.onnx"
        if not path.is_file():
            raise ValueError(f"{path} is missing: scripts/export_codec.py makes it from a SNAC checkpoint")
        provider = PROVIDERS[device]
        if provider not in ort.get_available_providers():
            raise ValueError(f"this onnxruntime has no {provider} (device {device}); it has {', '.join(ort.get_available_providers())}")
        if precision != "float32" and (device, precision) != ("tensorrt", "float16"):
            raise ValueError(f"ONNX Runtime on {device} runs the codec in float32, not in {precision}")
        try:
            self._session: Any = ort.InferenceSession(str(path), options, providers=[(provider, self._provider_options(device, precision))])
        except Exception as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        if provider not in self._session.get_providers():
            raise ValueError(f"{provider} did not start (driver or libraries missing?); ONNX Runtime fell back to the processor")
        check_codebook_size(path, self._session.get_modelmeta().custom_metadata_map.get("codebook_size"), self.config)

    def _provider_options(self, device: str, precision: str) -> dict[str, str]:
        """onnxruntime 1.23, docs/execution-providers: CUDA-ExecutionProvider and TensorRT-ExecutionProvider."""
        if device != "tensorrt":
            return {}
        levels, reach = len(self.config.vq_strides), tile_reach(self.config.decoder_rates)
        shapes = {
            which: f"codes:{rows}x{levels}x{size + 2 * reach},position:{rows},valid:{rows}x2"
            for which, rows, size in (("min", 1, min(self.sizes)), ("opt", self.max_rows, self.sizes[len(self.sizes) // 2]),
                                      ("max", self.max_rows, max(self.sizes)))
        }  # fmt: skip
        return {
            "trt_fp16_enable": str(int(precision == "float16")),
            **{f"trt_profile_{which}_shapes": shape for which, shape in shapes.items()},
        }

    def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
        n = len(inputs.position)
        full = pad_rows(inputs, self._rows)
        feed = {"codes": full.codes, "position": full.position, "valid": full.valid}
        return self._session.run(["audio"], feed)[0][:n]

    def close(self) -> None:
        del self._session
