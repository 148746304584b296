"""The codec on torch: a CUDA graph for each number of rows and tile size, so that a forward costs one launch; on a processor for
comparison.

The folder is a SNAC checkpoint (config.json with model.safetensors or pytorch_model.bin), no export needed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import load_config
from ..tiles import TileInputs, tile_reach
from .network import TileNetwork, load_weights, tensors_of
from .rows import pad_rows, row_counts

PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
WARM_UP_RUNS = 3
"""Before a capture, on a side stream: libraries choose their kernels and take their workspaces then (torch 2.13, notes on CUDA graphs)."""


class TorchEngine:
    """Raises ValueError for files or a device that do not fit. Not thread-safe inside, so `decode` takes a lock."""

    calls = 1

    def __init__(self, folder: Path, sizes: tuple[int, ...], threads: int, max_rows: int, device: str, precision: str) -> None:
        self.config = load_config(folder)
        self.sizes, self.max_rows = sizes, max_rows
        if device not in ("cpu", "cuda"):
            raise ValueError(f"torch runs the codec on cpu or cuda, not on {device}")
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("torch sees no CUDA device: set device to cpu, or give the container a GPU")
        if device == "cpu":
            torch.set_num_threads(threads)
        self._device, self._lock = torch.device(device), threading.Lock()
        network = TileNetwork(self.config, load_weights(folder))
        self._network = network.to(self._device, PRECISIONS[precision]).eval()
        self._rows = row_counts(max_rows)
        self._graphs: dict[tuple[int, int], CapturedForward] = {}
        if device == "cuda":
            length = 2 * tile_reach(self.config.decoder_rates)
            # The largest first: the others then find their memory in its pool.
            shapes = sorted(((rows, size) for rows in self._rows for size in sizes), key=lambda shape: -shape[0] * shape[1])
            pool: Any = torch.cuda.graph_pool_handle()
            self._graphs = {
                (rows, size): CapturedForward(self._network, rows, len(self.config.vq_strides), length + size, pool)
                for rows, size in shapes
            }

    @torch.inference_mode()
    def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
        n = len(inputs.position)
        full = pad_rows(inputs, self._rows)
        tensors = tensors_of(full)
        with self._lock:
            if self._graphs:
                size = full.codes.shape[2] - 2 * tile_reach(self.config.decoder_rates)
                audio = self._graphs[len(full.position), size](tensors)
            else:
                audio = self._network(*tensors)
            host: Any = audio[:n].float().cpu()
            return host.numpy()

    def close(self) -> None:
        self._graphs.clear()


class CapturedForward:
    """The network on one shape, recorded once; a call copies its inputs in and replays it. The result is overwritten by the next call."""

    @torch.inference_mode()
    def __init__(self, network: TileNetwork, rows: int, levels: int, length: int, pool: Any) -> None:
        make: Any = torch.zeros
        self._inputs = [
            make(shape, dtype=kind, device="cuda")
            for shape, kind in (((rows, levels, length), torch.int32), ((rows,), torch.int64), ((rows, 2), torch.int64))
        ]
        side: Any = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_RUNS):
                network(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._audio: Tensor = network(*self._inputs)

    def __call__(self, tensors: list[Tensor]) -> Tensor:
        for mine, given in zip(self._inputs, tensors, strict=True):
            mine.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._audio
