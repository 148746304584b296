"""Engines: what runs the speech language model. `create_engine` is the one way to get one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from .base import Engine, EngineError, EngineOptions, Generation, Sampling

__all__ = ["Engine", "EngineError", "EngineOptions", "Generation", "Sampling", "create_engine"]


def create_engine(name: str, folder: Path, options: EngineOptions) -> Engine:
    """`openvino`, `tensorrt_llm`, or `package.module:Class` for an engine of one's own.

    Such a class lies in the model's version folder (the isolated Python of Triton's stub ignores PYTHONPATH), is called as
    Class(folder, options) and must satisfy `Engine`. Raises ValueError for a name that cannot be resolved.
    """
    if name == "openvino":
        from .openvino import OpenVinoEngine

        return OpenVinoEngine(folder, options)
    if name == "tensorrt_llm":
        from .tensorrt_llm import TensorRtLlmEngine

        return TensorRtLlmEngine(folder, options)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"unknown engine {name!r}; known are 'openvino', 'tensorrt_llm' and 'package.module:Class'")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the engine {name!r} cannot be imported: {error}") from error
    return cast(Engine, kind(folder, options))
