"""config.pbtxt files as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tritonclient.grpc.model_config_pb2 as generated
from google.protobuf import text_format

# The generated module makes its messages at import; type checkers see none of them.
model_config_pb2: Any = generated

MODEL_REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
MODELS = ("orpheus_tts", "orpheus_lm", "snac_decoder")


@dataclass(frozen=True)
class TensorType:
    """Type and shape as written in config.pbtxt, without the batch dimension."""

    data_type: str
    dims: tuple[int, ...]
    optional: bool = False


def config_text(model: str) -> str:
    return (MODEL_REPOSITORY / model / "config.pbtxt").read_text(encoding="utf-8")


def parse_config(model: str) -> Any:
    """Of one of ours: see `read_config`."""
    return read_config(MODEL_REPOSITORY / model / "config.pbtxt")


def read_config(path: Path) -> Any:
    """Triton's own ModelConfig message. Raises text_format.ParseError for an unknown field or type."""
    message = model_config_pb2.ModelConfig()
    text_format.Parse(path.read_text(encoding="utf-8"), message)
    return message


def inputs(config: Any) -> dict[str, TensorType]:
    return {t.name: TensorType(_type_name(t.data_type), tuple(t.dims), t.optional) for t in config.input}


def outputs(config: Any) -> dict[str, TensorType]:
    return {t.name: TensorType(_type_name(t.data_type), tuple(t.dims)) for t in config.output}


def parameters(config: Any) -> dict[str, str]:
    return {key: value.string_value for key, value in config.parameters.items()}


def _type_name(number: int) -> str:
    name: str = model_config_pb2.DataType.Name(number)
    return name.removeprefix("TYPE_")
