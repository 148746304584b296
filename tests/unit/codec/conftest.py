"""Two codecs: the embedded voice's, and the full SNAC 24 kHz architecture with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from snac_codec.decoder import OnnxDecoder
from support import random_snac as snac

POCKET = Path(__file__).parents[3] / "model_repository/snac_decoder/1/pocket"


@pytest.fixture(scope="session")
def pocket() -> OnnxDecoder:
    return OnnxDecoder(POCKET)


@pytest.fixture(scope="session")
def random_snac() -> Any:
    return snac.random_snac()


@pytest.fixture(scope="session")
def snac_folder(random_snac: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("snac")
    snac.export_random_snac(random_snac, tmp_path_factory.mktemp("checkpoint"), out)
    return out


@pytest.fixture(scope="session")
def snac_24khz(snac_folder: Path) -> OnnxDecoder:
    return OnnxDecoder(snac_folder)
