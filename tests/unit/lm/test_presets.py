"""The models of the SNAC family that come as data: each preset loads, and makes the prompt that its source documents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from speech_lm.errors import InvalidRequest
from speech_lm.frontends import load_frontend
from speech_lm.requests import SpeechRequest, parse_request
from speech_lm.voice import Voice, load_voice
from support.tiny_orpheus import tokenizer

ROOT = Path(__file__).parents[3]
PRESETS = sorted(path.parent for path in (ROOT / "presets").glob("*/voice.json"))
START_OF_HUMAN, BEGIN, END_OF_TEXT, END_OF_HUMAN, START_OF_AI, START_OF_SPEECH = 128259, 128000, 128009, 128260, 128261, 128257


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes are its words, so that what was tokenised can be read back."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(json.dumps(tokenizer()))
    return path


def installed(name: str, tokenizer_file: Path, folder: Path) -> Voice:
    shutil.copyfile(ROOT / "presets" / name / "voice.json", folder / "voice.json")
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    return load_voice(folder)


@pytest.mark.parametrize(
    ("name", "voice", "before", "tokenised", "after"),
    [
        ("orpheus-3b", "tara", [START_OF_HUMAN, BEGIN], "tara: Hi <laugh>", [END_OF_TEXT, END_OF_HUMAN, START_OF_AI, START_OF_SPEECH]),
        ("svara", "Hindi (Male)", [BEGIN, START_OF_HUMAN, 156939], " Hindi (Male): Hi <laugh>", [END_OF_TEXT, END_OF_HUMAN, START_OF_AI]),
        ("veena", "kavya", [START_OF_HUMAN, 156940], " Hi <laugh>", [END_OF_HUMAN, START_OF_AI, START_OF_SPEECH]),
        (
            "maya1", "Old man, {text} \"gravel\"", [START_OF_HUMAN, BEGIN], '<description="Old man, {text} "gravel""> Hi <laugh>',
            [END_OF_TEXT, END_OF_HUMAN, START_OF_AI, START_OF_SPEECH],
        ),
    ],
)  # fmt: skip
def test_the_prompt(
    name: str, voice: str, before: list[int], tokenised: str, after: list[int], tokenizer_file: Path, tmp_path: Path
) -> None:
    frontend = load_frontend(installed(name, tokenizer_file, tmp_path))
    ids = frontend.read("Hi <laugh>", voice).prompt_ids
    assert ids[: len(before)] == before
    assert ids[-len(after) :] == after
    assert ids[len(before) : -len(after)] == frontend.encode(tokenised)
    assert len(frontend.encode(tokenised)) == len(tokenised.encode()), "plain bytes: a tag is no control token"


@pytest.mark.parametrize("folder", PRESETS, ids=lambda folder: folder.name)
def test_the_family_shares_audio_ids_and_codec(folder: Path) -> None:
    voice = load_voice(folder)
    assert voice.name == folder.name
    assert (voice.tokens.audio_base, voice.tokens.codebook_size) == (128266, 4096)
    assert 128258 in voice.tokens.end_ids
    assert (voice.codec.context_latents, voice.codec.sample_rate_hz) == (10, 24000)
    assert f"`{folder.name}`" in (ROOT / "presets" / "README.md").read_text(), "with its source"


def test_described_voices_are_free_text_within_bounds(tokenizer_file: Path, tmp_path: Path) -> None:
    voice = installed("maya1", tokenizer_file, tmp_path)

    def asked(description: str | None) -> str:
        tensors = {"TEXT": np.array([b"Hi."], object)}
        if description is not None:
            tensors["VOICE"] = np.array([description.encode()], object)
        request = parse_request("id", tensors, voice, max_text_characters=100, max_chunk_frames=8)
        assert isinstance(request, SpeechRequest)
        return request.voice

    assert asked("An old  man\n with a deep voice") == "An old man with a deep voice"
    assert asked(None) == voice.voices[0]
    for wrong in ("", " ", "x" * 501):
        with pytest.raises(InvalidRequest, match="VOICE must describe a voice in 1 to 500 characters"):
            asked(wrong)
