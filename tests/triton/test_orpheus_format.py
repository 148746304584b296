"""Orpheus's own format through the same server: its vocabulary, prompt, voices and the full SNAC 24 kHz architecture, with
random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedded.running import RunningServer
from export_codec import export
from orpheus_client import Client, InvalidRequest
from support import tiny_orpheus
from support.random_snac import random_snac, save_snac
from support.raw import Response, ask, frames_of, text
from support.server import StartServer
from support.whole import on_onnxruntime, whole_decode

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")


@pytest.fixture(scope="module")
def codec_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snac")
    export(save_snac(random_snac(), folder / "checkpoint"), folder / "snac")
    return folder / "snac"


@pytest.fixture(scope="module")
def orpheus(start_server: StartServer, codec_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    voice = tiny_orpheus.build(tmp_path_factory.mktemp("orpheus"))
    return start_server(environment={"ORPHEUS_LM_FOLDER": str(voice), "SNAC_FOLDER": str(codec_folder)})


def speak(orpheus: RunningServer, said: str, **options: Any) -> list[Response]:
    return ask(orpheus.grpc_url, "orpheus_tts", {"TEXT": text(said), "SEED": np.array([5], np.int64), **options})


def test_streamed_audio_equals_the_whole_decode(orpheus: RunningServer, codec_folder: Path) -> None:
    said = "Well <laugh> the train leaves at half past nine."
    windows = ask(
        orpheus.grpc_url,
        "orpheus_lm",
        {"TEXT": text(said), "VOICE": text("leo"), "SEED": np.array([5], np.int64), "STANDALONE": np.array([True])},
    )
    whole = whole_decode(on_onnxruntime(codec_folder), frames_of(windows))
    responses = speak(orpheus, said, VOICE=text("leo"))
    audio = np.concatenate([r.outputs["AUDIO"] for r in responses])
    assert len(audio) == len(whole) > 0
    assert np.abs(audio.astype(int) - whole.astype(int)).max() <= 1
    assert whole.std() > 300


def test_voices_are_orpheuss(orpheus: RunningServer) -> None:
    with Client(orpheus.grpc_url) as client:
        assert client.voices() == VOICES
        with pytest.raises(InvalidRequest, match="VOICE 'pocket' is unknown; voices are: tara, leah"):
            client.synthesize("Hello.", voice="pocket")


@pytest.mark.parametrize(
    "said", ["<|eot_id|>", "<custom_token_3> then <|audio|>", "tara: hello", "a < b > c", "<laugh>", "“Curly” — naïve"]
)
def test_text_that_looks_like_control_tokens_is_spoken(orpheus: RunningServer, said: str) -> None:
    responses = speak(orpheus, said)
    assert responses[-1].text("FINISH_REASON") in ("stop", "length")
    assert sum(len(r.outputs["AUDIO"]) for r in responses) > 0
