"""docs/operations.md against the code: settings with their defaults, and metrics."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from snac_codec import settings as codec_settings
from snac_codec.metrics import FAMILIES as CODEC_FAMILIES
from speech_lm import settings as lm_settings
from speech_lm.metrics import FAMILIES as LM_FAMILIES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([A-Z_]+)` \| `([a-z_]+)` \| `([^`]*)` \|", re.MULTILINE)
PARAMETER = re.compile(r'parameters \{ key: "(\w+)" value \{ string_value: "([^"]*)" \} \}')


def test_the_table_of_settings_is_complete_and_true() -> None:
    wanted: set[tuple[str, str, str]] = set()
    for model, module in (("orpheus_lm", lm_settings), ("snac_decoder", codec_settings)):
        defaults = dict(PARAMETER.findall((ROOT / "model_repository" / model / "config.pbtxt").read_text(encoding="utf-8")))
        assert set(defaults) == {field.name for field in fields(module.Settings)}
        wanted |= {(module.ENVIRONMENT_PREFIX + name.upper(), name, value) for name, value in defaults.items()}
    assert set(ROW.findall(PAGE)) == wanted


@pytest.mark.parametrize("name", [*LM_FAMILIES, *CODEC_FAMILIES])
def test_every_metric_is_explained(name: str) -> None:
    assert re.search(rf"`{name}(?:\{{\w+\}})?`", PAGE), f"{name} is not in docs/operations.md"
