"""The decode of a whole utterance in one piece: the mark for everything that is streamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from snac_codec.engines.base import Engine
from snac_codec.engines.onnxruntime import OnnxRuntimeEngine
from snac_codec.pcm import to_int16
from snac_codec.tiles import Tile, tile_inputs
from snac_codec.window import Window


def on_onnxruntime(folder: Path, sizes: tuple[int, ...] = (2, 4, 8, 16, 32)) -> OnnxRuntimeEngine:
    """It takes tiles of any size, whatever `sizes` says."""
    return OnnxRuntimeEngine(folder, sizes, threads=2, max_rows=1, device="cpu", precision="float32")


def whole_audio(engine: Engine, codes: NDArray[np.int32], first_frame: int = 0) -> NDArray[np.float32]:
    """codes int32 [frames, 7] as one tile, which has no seams -> float32 [2048 * frames]. The engine must take tiles of that size."""
    window = Window(codes.reshape(-1), first_frame, 0, 2048 * len(codes))
    return engine.decode(tile_inputs([Tile(0, 0, 4 * len(codes))], [window], engine.config))[0]


def whole_decode(engine: Engine, codes: NDArray[np.int32]) -> NDArray[np.int16]:
    """The same as 16-bit PCM."""
    return to_int16(whole_audio(engine, codes))
