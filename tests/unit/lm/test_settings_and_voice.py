from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from speech_lm.settings import load_settings
from speech_lm.voice import load_voice

PARAMETERS = {
    "engine": "openvino", "folder": "pocket", "threads": "0", "max_streams": "32", "max_text_characters": "100", "max_chunk_frames": "8",
    "comfort_ms": "300", "lookahead_latents": "-1", "max_outstanding_windows": "4", "dead_stream_ms": "3000", "segments_ahead": "1",
}  # fmt: skip
VOICE: dict[str, Any] = {
    "name": "test",
    "tokens": {"audio_base": 256, "codebook_size": 512, "end_ids": [4]},
    "prompt": {"before": [1], "template": "{voice}: {text}", "after": [2, 3]},
    "frontend": {"kind": "text", "file": "tokenizer.json"},
    "voices": ["one", "two"],
    "describes_voices": False,
    "sampling": {"temperature": 0.6, "top_p": 0.9, "top_k": 0, "repetition_penalty": 1.1},
    "length": {"base_frames": 12, "frames_per_character": 2.0, "max_segment_characters": 200},
    "codec": {"context_latents": 10, "latents_per_frame": 4, "samples_per_latent": 512, "sample_rate_hz": 24000},
}


def test_the_environment_overrides_parameters() -> None:
    settings = load_settings(PARAMETERS, {"ORPHEUS_LM_MAX_STREAMS": "7", "ORPHEUS_LM_FOLDER": "/models/x", "PATH": "/bin"})
    assert (settings.max_streams, settings.folder, settings.comfort_ms) == (7, "/models/x", 300)
    assert settings.path(Path("/repository/1")) == Path("/models/x")
    assert load_settings(PARAMETERS, {}).path(Path("/repository/1")) == Path("/repository/1/pocket")


@pytest.mark.parametrize(
    ("parameters", "environment", "message"),
    [
        ({"max_stream": "3"}, {}, "unknown config.pbtxt parameter 'max_stream'"),
        ({}, {"ORPHEUS_LM_MAX_STREAM": "3"}, "unknown environment variable 'ORPHEUS_LM_MAX_STREAM'"),
        ({"threads": "two"}, {}, "threads must be a whole number, not 'two'"),
        ({}, {"ORPHEUS_LM_MAX_STREAMS": "0"}, "max_streams must be at least 1, not 0"),
    ],
)
def test_what_does_not_fit_is_named(parameters: dict[str, str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_settings(PARAMETERS | parameters, environment)


def test_missing_parameters_are_named() -> None:
    with pytest.raises(ValueError, match="lacks the parameters comfort_ms"):
        load_settings({k: v for k, v in PARAMETERS.items() if k != "comfort_ms"}, {})


def test_tritons_own_parameters_pass() -> None:
    assert load_settings(PARAMETERS | {"EXECUTION_ENV_PATH": "/x"}, {}).threads == 0


def write(folder: Path, content: object) -> Path:
    (folder / "voice.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_voice_is_read(tmp_path: Path) -> None:
    voice = load_voice(write(tmp_path, VOICE))
    assert voice.voices == ("one", "two")
    assert voice.tokens.end_ids == {4}
    assert voice.prompt.ids([9, 9]) == [1, 9, 9, 2, 3]
    assert voice.codec.first_exact_frames == 3
    assert voice.length.max_frames(10) == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"voices": []}, "voices must be a list"),
        ({"describes_voices": "yes"}, "describes_voices must be true or false"),
        ({"sampling": {"temperature": 1}}, r"sampling: unknown or missing keys \['repetition_penalty', 'top_k', 'top_p'\]"),
        ({"extra": 1}, r"unknown or missing keys \['extra'\]"),
        ({"tokens": 5}, "tokens must be an object"),
    ],
)
def test_a_wrong_voice_names_the_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_voice(write(tmp_path, VOICE | change))


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"voice\.json is missing"):
        load_voice(tmp_path)
    with pytest.raises(ValueError, match="is not JSON"):
        load_voice(write(tmp_path, "{"))
