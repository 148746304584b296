"""Each config.pbtxt by itself: it parses, names what lies beside it, explains every tensor, and keeps the contract that callers rely on."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any

import pytest
import snac_codec.settings
import speech_lm.settings
from speech_lm.stream import CODEC_QUEUE_S
from support.model_config import MODEL_REPOSITORY, MODELS, TensorType, config_text, inputs, outputs, parameters, parse_config

SPEECH_INPUTS = {
    "TEXT": TensorType("STRING", (1,), optional=True),
    "VOICE": TensorType("STRING", (1,), optional=True),
    "TEMPERATURE": TensorType("FP32", (1,), optional=True),
    "TOP_P": TensorType("FP32", (1,), optional=True),
    "TOP_K": TensorType("INT32", (1,), optional=True),
    "REPETITION_PENALTY": TensorType("FP32", (1,), optional=True),
    "MAX_TOKENS": TensorType("INT32", (1,), optional=True),
    "SEED": TensorType("INT64", (1,), optional=True),
    "CHUNK_FRAMES": TensorType("INT32", (1,), optional=True),
}
LM_INPUTS = SPEECH_INPUTS | {name: TensorType("BOOL", (1,), optional=True) for name in ("STOP", "DESCRIBE", "STANDALONE")}
WINDOW = {
    "CODES": TensorType("INT32", (-1,)),
    "EMIT": TensorType("INT32", (2,)),
    "FIRST_FRAME": TensorType("INT64", (1,)),
    "TICKET": TensorType("INT64", (3,)),
    "INDEX": TensorType("INT32", (1,)),
    "FINISH_REASON": TensorType("STRING", (1,)),
}
LM_OUTPUTS = WINDOW | {"DESCRIPTION": TensorType("STRING", (1,))}
SPEECH = {"AUDIO": TensorType("INT16", (-1,)), "INDEX": TensorType("INT32", (1,)), "FINISH_REASON": TensorType("STRING", (1,))}
CONTRACT = {
    "orpheus_tts": (SPEECH_INPUTS, SPEECH),
    "orpheus_lm": (LM_INPUTS, LM_OUTPUTS),
    "snac_decoder": (WINDOW, SPEECH),
}


def test_the_repository_holds_these_models_and_no_others() -> None:
    assert sorted(file.parent.name for file in MODEL_REPOSITORY.glob("*/config.pbtxt")) == sorted(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_it_parses_and_names_its_folder(model: str) -> None:
    assert parse_config(model).name == model


@pytest.mark.parametrize("model", MODELS)
def test_its_only_version_is_there(model: str) -> None:
    assert [folder.name for folder in (MODEL_REPOSITORY / model).iterdir() if folder.is_dir()] == ["1"]


@pytest.mark.parametrize("model", MODELS)
def test_its_tensors_are_the_contract(model: str) -> None:
    config = parse_config(model)
    assert (inputs(config), outputs(config)) == CONTRACT[model]


@pytest.mark.parametrize("model", MODELS)
def test_every_tensor_is_explained_above_it(model: str) -> None:
    lines = config_text(model).splitlines()
    tensors = [i for i, line in enumerate(lines) if re.match(r'\s*\{ name: "[A-Z_]+" data_type:', line)]
    assert len(tensors) == sum(map(len, CONTRACT[model])), "one tensor a line"
    unexplained = [lines[i].strip() for i in tensors if not re.match(r"\s*# \S", lines[i - 1])]
    assert not unexplained


@pytest.mark.parametrize(
    ("model", "settings"), [("orpheus_lm", speech_lm.settings), ("snac_decoder", snac_codec.settings)], ids=["orpheus_lm", "snac_decoder"]
)
def test_parameters_are_the_settings_and_their_defaults_are_valid(model: str, settings: Any) -> None:
    given = parameters(parse_config(model))
    assert set(given) == {field.name for field in dataclasses.fields(settings.Settings)}
    settings.load_settings(given, {})


@pytest.mark.parametrize("model", ["orpheus_lm", "snac_decoder"])
def test_the_adapter_reads_exactly_the_inputs(model: str) -> None:
    """A name that only one of config.pbtxt and model.py knows is a typing error that would show as a default in silence."""
    strings = {
        node.value
        for file in [MODEL_REPOSITORY / model / "1" / "model.py", *(MODEL_REPOSITORY / model / "1").glob("*_*/*.py")]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    config = parse_config(model)
    assert set(inputs(config)) | set(outputs(config)) <= strings


def test_the_language_model_is_decoupled_and_never_batched_by_triton() -> None:
    config = parse_config("orpheus_lm")
    assert config.model_transaction_policy.decoupled
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")


def test_the_codec_batches_windows_of_different_streams_and_lengths() -> None:
    config = parse_config("snac_decoder")
    assert config.max_batch_size >= 16
    assert config.HasField("dynamic_batching")
    assert 0 < config.dynamic_batching.max_queue_delay_microseconds <= 30_000
    assert config.dynamic_batching.max_queue_delay_microseconds == pytest.approx(CODEC_QUEUE_S * 1e6), "what streams plan with"
    ragged = {t.name: t.allow_ragged_batch for t in config.input if -1 in t.dims}
    assert ragged == {"CODES": True}, "a window of another length would close the batch"
    assert not any(t.optional for t in config.input), "with an optional input Triton compares inputs and splits batches"


def test_windows_of_one_stream_stay_in_order() -> None:
    """Two instances could overtake each other; `preserve_ordering` alone was broken in several Triton releases."""
    config = parse_config("snac_decoder")
    assert sum(group.count for group in config.instance_group) == 1
