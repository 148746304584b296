"""Engines that run a speech language model: `base` is what the rest of the package knows of them, each other module is one engine.

An engine of one's own is named `package.module:Class`; it is imported from PYTHONPATH and made as `Class(folder, options)`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from .base import Engine, EngineError, EngineOptions, Generation, Sampling

__all__ = ["Engine", "EngineError", "EngineOptions", "Generation", "Sampling", "create_engine"]

ENGINES = {"openvino": "speech_lm.engines.openvino:OpenVinoEngine"}


def create_engine(name: str, folder: Path, options: EngineOptions) -> Engine:
    """folder: the voice's, with the model in the engine's own format. Raises ValueError for a name that leads nowhere."""
    module, separator, cls = ENGINES.get(name, name).partition(":")
    if not separator:
        raise ValueError(f"unknown engine {name!r}; known are {', '.join(ENGINES)}, or package.module:Class for one of your own")
    try:
        return getattr(importlib.import_module(module), cls)(folder, options)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"engine {name!r} cannot be loaded: {error}") from error
