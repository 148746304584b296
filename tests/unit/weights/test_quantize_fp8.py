"""The whole script on a tiny checkpoint in Orpheus's format, with the real NVIDIA ModelOpt on a processor."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from speech_lm.engines.tensorrt_llm_config import EngineConfig, kv_cache_dtype
from speech_lm.voice import load_voice
from support import tiny_orpheus

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("ORPHEUS_TEST_QUANTIZE_PYTHON") or ROOT / ".venv-quantize/bin/python")

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no environment with NVIDIA ModelOpt: make install-quantize")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fp8")
    tiny_orpheus.build(folder)
    command = [PYTHON, ROOT / "scripts/quantize_fp8.py", folder / "checkpoint", folder / "fp8", "--voice", ROOT / "presets/orpheus-3b"]
    done = subprocess.run([*command, "--samples", "3", "--max-tokens", "21"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "weights FP8, key-value cache FP8" in done.stdout
    assert "3 of 3 prompts" in done.stderr
    return folder / "fp8"


def test_matrices_and_cache_are_fp8_and_the_head_is_not(quantized: Path) -> None:
    config = json.loads((quantized / "hf_quant_config.json").read_text())["quantization"]
    assert (config["quant_algo"], config["kv_cache_quant_algo"]) == ("FP8", "FP8")
    file: Any = safe_open(quantized / "model.safetensors", "pt")
    names: list[str] = list(file.keys())
    kinds = {name: str(file.get_slice(name).get_dtype()) for name in names}
    projection = "model.layers.0.self_attn.q_proj"
    assert kinds[f"{projection}.weight"] == "F8_E4M3"
    widened: Any = file.get_tensor(f"{projection}.weight_scale").float() * file.get_tensor(f"{projection}.weight").float()
    assert f"{projection}.input_scale" in kinds
    assert kinds["lm_head.weight"] != "F8_E4M3"
    original = tiny_orpheus.weights(0)[f"{projection}.weight"].astype(np.float32)
    assert np.abs(widened.numpy() - original).max() < 0.07 * np.abs(original).max(), "three bits of mantissa"


def test_it_is_a_voice_folder_that_the_engine_takes(quantized: Path) -> None:
    assert load_voice(quantized).name == "orpheus-3b"
    assert (quantized / "tokenizer.json").is_file()
    assert kv_cache_dtype(EngineConfig(), quantized) == "fp8"


def test_a_checkpoint_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    command = [PYTHON, ROOT / "scripts/quantize_fp8.py", tmp_path, tmp_path / "out", "--voice", ROOT / "presets/orpheus-3b"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "tokenizer.json is missing: the checkpoint must bring" in done.stderr
