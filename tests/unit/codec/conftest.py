"""Two codecs, the embedded voice's and the full SNAC 24 kHz architecture with random weights, on the engines that run on a processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from snac_codec.engines.base import Engine
from snac_codec.engines.openvino import OpenVinoEngine
from support import random_snac as snac
from support.whole import on_onnxruntime

POCKET = Path(__file__).parents[3] / "model_repository/snac_decoder/1/pocket"
SIZES = (2, 4, 8, 16, 32)


@pytest.fixture(scope="session")
def pocket() -> Engine:
    return OpenVinoEngine(POCKET, SIZES, threads=2)


@pytest.fixture(scope="session")
def pocket_onnx() -> Engine:
    """Takes tiles of any size: a whole utterance as one, which has no seams."""
    return on_onnxruntime(POCKET)


@pytest.fixture(scope="session")
def random_snac() -> Any:
    return snac.random_snac()


@pytest.fixture(scope="session")
def checkpoint(random_snac: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return snac.save_snac(random_snac, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def snac_folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from export_codec import export

    out = tmp_path_factory.mktemp("snac")
    export(checkpoint, out)
    return out


@pytest.fixture(scope="session")
def snac_24khz(snac_folder: Path) -> Engine:
    return on_onnxruntime(snac_folder)
