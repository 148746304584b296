from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doctor import main
from doctoring.checks import Plan, judge
from doctoring.facts import Facts, Gpu, gpus
from doctoring.memory import LlamaShape, cache_tokens, gpu_budget
from support.programs import executable

ORPHEUS: dict[str, Any] = {
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 3072,
}
"""canopylabs/orpheus-3b-0.1-ft, config.json."""
H100 = Gpu("NVIDIA H100 80GB HBM3", "570.1", 9.0, 80 << 30)
GOOD = Facts(
    python=(3, 11), packages={"numpy": "1.26.4", "nvidia-pytriton": "0.7.0", "openvino-genai": "2026.4.1", "hibari-tts": "0.2.1"},
    server="/bin/tritonserver", server_problem="", gpus=[], shared_memory_bytes=2 << 30, memory_bytes=24 << 30, busy_ports=[],
    voice_codebook=512, voice_frontend="phonemes", voice_files=["openvino_model.xml"], voice_weight_bytes=7_000_000, voice_config=ORPHEUS,
    codec_codebook=512, codec_files=["decoder.onnx"],
)  # fmt: skip
ON_GPU = replace(
    GOOD, packages={"numpy": "2.1.0", "tensorrt-llm": "1.2.1", "torch": "2.9.0"}, gpus=[H100], voice_files=["model.safetensors"],
    voice_frontend="text", voice_weight_bytes=4_000_000_000, voice_quantized=True, codec_files=["pytorch_model.bin"],
)  # fmt: skip
GPU_PLAN = Plan("tensorrt_llm", "torch", "cuda", max_streams=64)


def failing(facts: Facts, plan: Plan) -> dict[str, str]:
    return {verdict.check: verdict.text for verdict in judge(facts, plan) if verdict.level == "fail"}


def test_cache_of_orpheus_worked_by_hand() -> None:
    """28 layers x 8 heads x 128 values x keys and values = 57,344 values a token."""
    shape = LlamaShape.of(ORPHEUS)
    assert (shape.cache_bytes_per_token(1), shape.cache_bytes_per_token(2)) == (57_344, 114_688)
    assert cache_tokens(2, 10.0) == 2 * (128 + 820)
    budget = gpu_budget(80 << 30, 4_000_000_000, shape, 1, streams=64, segment_s=15.0)
    assert budget.cache == 64 * (128 + 1230) * 57_344
    assert budget.left == (80 << 30) - 4_000_000_000 - budget.cache - (3 << 30) - (2 << 30)


def test_a_head_dim_that_the_config_leaves_out() -> None:
    shape = LlamaShape.of({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64})
    assert (shape.key_value_heads, shape.head_dim) == (4, 16)


@pytest.mark.parametrize(("facts", "plan"), [(GOOD, Plan()), (ON_GPU, GPU_PLAN)])
def test_good_installations(facts: Facts, plan: Plan) -> None:
    assert {verdict.level for verdict in judge(facts, plan)} == {"ok"}


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"python": (3, 13)}, "python", "3.13; needs 3.10 to 3.12"),
        ({"server": None, "server_problem": "no tritonserver on PATH"}, "tritonserver", "no tritonserver on PATH"),
        ({"packages": GOOD.packages | {"numpy": "2.2.0"}}, "numpy", "every output would be empty; pip install 'numpy<2'"),
        ({"voice_files": []}, "voice", "holds no openvino_model.xml: scripts/export_lm.py"),
        ({"voice_problem": "voice.json is missing"}, "voice", "voice.json is missing"),
        ({"packages": {"numpy": "1.26.4", "openvino-genai": "1"}}, "frontend", "hibari-tts is not installed"),
        ({"packages": {"numpy": "1.26.4", "hibari-tts": "1"}}, "language model engine", "openvino-genai is not installed"),
        ({"codec_files": []}, "codec", "holds no decoder.onnx for the engine openvino"),
        ({"codec_codebook": 4096}, "codebook", "speaks 512 codes a slot, the codec reads 4096"),
        ({"shared_memory_bytes": 1 << 20}, "shared memory", "--shm-size=1g"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(change: dict[str, Any], check: str, message: str) -> None:
    assert message in failing(replace(GOOD, **change), Plan())[check]


@pytest.mark.parametrize(
    ("change", "plan", "check", "message"),
    [
        ({"gpus": []}, GPU_PLAN, "gpu", "nvidia-smi shows no GPU"),
        ({"gpus": [replace(H100, compute=8.0)]}, GPU_PLAN, "gpu", "an FP8 checkpoint needs 8.9"),
        ({"gpus": [replace(H100, total_bytes=8 << 30)]}, GPU_PLAN, "memory", "lower max_streams"),
        ({"packages": ON_GPU.packages | {"tensorrt-llm": "0.17.0"}}, GPU_PLAN, "language model engine", "0.17.0 is too old"),
        ({}, replace(GPU_PLAN, codec_engine="onnxruntime"), "codec engine", "onnxruntime-gpu is not installed"),
    ],
)
def test_what_is_wrong_on_a_gpu(change: dict[str, Any], plan: Plan, check: str, message: str) -> None:
    assert message in failing(replace(ON_GPU, **change), plan)[check]


def test_nvidia_smis_answer_is_read(tmp_path: Path) -> None:
    command = executable(tmp_path / "nvidia-smi", "echo 'NVIDIA H100 80GB HBM3, 570.124.06, 9.0, 81559'")
    assert gpus(str(command)) == [Gpu("NVIDIA H100 80GB HBM3", "570.124.06", 9.0, 81559 << 20)]
    assert gpus(str(tmp_path / "absent")) == []


def test_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--ports"], {}) == 0
    levels = {verdict["check"]: verdict["level"] for verdict in json.loads(capsys.readouterr().out)}
    assert levels["voice"] == levels["codec"] == levels["numpy"] == "ok"
    assert main(["--ports"], {"SNAC_FOLDER": "absent"}) == 1
    assert "FAIL  codec" in capsys.readouterr().out
