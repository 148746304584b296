"""Engines of the codec, chosen by the settings. Only the chosen one's library is imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..config import CodecConfig
from ..settings import Settings
from ..tiles import TileInputs, tile_reach
from .base import Engine


def create_engine(settings: Settings, folder: Path) -> Engine:
    """A loaded and warmed engine. Raises ValueError that says what does not fit."""
    sizes, threads = settings.tile_latents, settings.calls
    if settings.engine == "openvino":
        if settings.device != "cpu" or settings.precision != "float32":
            raise ValueError(f"OpenVINO runs the codec on cpu in float32, not on {settings.device} in {settings.precision}")
        from .openvino import OpenVinoEngine

        engine: Engine = OpenVinoEngine(folder, sizes, threads)
    elif settings.engine == "onnxruntime":
        from .onnxruntime import OnnxRuntimeEngine

        engine = OnnxRuntimeEngine(folder, sizes, threads, settings.max_rows, settings.device, settings.precision)
    else:
        from .torch import TorchEngine

        engine = TorchEngine(folder, sizes, threads, settings.max_rows, settings.device, settings.precision)
    warm_up(engine)
    return engine


def warm_up(engine: Engine) -> None:
    """Decode every shape once, so that the first listener does not pay for it. Raises ValueError for output that cannot be right."""
    from .rows import row_counts

    for size in engine.sizes:
        for rows in row_counts(engine.max_rows):
            audio = engine.decode(blank(engine.config, rows, size))
            wanted = (rows, size * engine.config.samples_per_latent)
            if audio.shape != wanted or not np.isfinite(audio).all():
                raise ValueError(
                    f"the codec made {audio.shape} samples of {rows} tiles of {size} latents, wanted were finite ones of {wanted}"
                )


def blank(config: CodecConfig, rows: int, size: int) -> TileInputs:
    """Tiles of code 0 with a full context."""
    length = size + 2 * tile_reach(config.decoder_rates)
    return TileInputs(
        np.zeros((rows, len(config.vq_strides), length), np.int32), np.zeros(rows, np.int64), np.tile(np.array([0, length]), (rows, 1))
    )
