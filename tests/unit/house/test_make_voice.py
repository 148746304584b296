"""A checkpoint in Orpheus's format becomes a folder that the server's own code loads and that speaks; a wrong pair is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import make_voice
import pytest
from speech_lm.engines import EngineOptions, Sampling
from speech_lm.engines.openvino import OpenVinoEngine
from speech_lm.framing import Framer, FramerState
from speech_lm.frontends import load_frontend
from speech_lm.voice import load_voice
from support import tiny_orpheus
from support.generations import hear, run


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orpheus") / "checkpoint"
    tiny_orpheus.build_checkpoint(folder)
    return folder


@pytest.fixture
def voice_json(tmp_path: Path) -> Path:
    return described(tmp_path / "voice.json", {})


def described(file: Path, change: dict[str, dict[str, Any]]) -> Path:
    """The tiny voice's description with other values in some of its sections."""
    file.write_text(json.dumps({key: value | change[key] if key in change else value for key, value in tiny_orpheus.VOICE.items()}))
    return file


@pytest.mark.parametrize("precision", ["f16", "int8", "int4"])
def test_the_folder_speaks(checkpoint: Path, voice_json: Path, tmp_path: Path, precision: str) -> None:
    """The tiny model's weights say which slot comes next, so an unbroken run of whole frames shows that all of it survived."""
    assert make_voice.main([str(checkpoint), str(tmp_path / "out"), "--voice", str(voice_json), "--precision", precision]) == 0
    voice = load_voice(tmp_path / "out")
    prompt = load_frontend(voice).read("Good morning.", "tara").prompt_ids

    async def speech() -> list[int]:
        engine = OpenVinoEngine(tmp_path / "out", EngineOptions(threads=0, max_streams=1))
        await engine.start()
        try:
            sampling = Sampling(0.6, 0.9, 50, 1.1, seed=1, max_tokens=70, stop_ids=voice.tokens.end_ids)
            return (await hear(engine.submit(prompt, sampling))).ids
        finally:
            await engine.close()

    ids = run(speech())
    state = FramerState()
    frames = Framer(voice.tokens).push(state, ids)
    assert len(frames) == 10
    assert (state.dropped_codes, state.resyncs, state.foreign_ids) == (0, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": {"audio_base": 140_000}}, "audio ids end at 168671"),
        ({"tokens": {"end_ids": [128_270]}}, "end_ids: .128270. are audio ids"),
        ({"prompt": {"before": [999_999]}}, "prompt.before: .999999. are outside the model's vocabulary of 156940"),
        ({"tokens": {"audio_base": 0}}, "tokenizer.json makes audio ids of text"),
        ({"frontend": {"file": "words.json"}}, "words.json, which is neither in"),
        ({"frontend": {"kind": "letters"}}, "unknown frontend kind 'letters'"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, dict[str, Any]], message: str
) -> None:
    voice_json = described(tmp_path / "voice.json", change)
    assert make_voice.main([str(checkpoint), str(tmp_path / "out"), "--voice", str(voice_json)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("make_voice: ")
    assert re.search(message, said)
    assert [file.name for file in tmp_path.iterdir()] == ["voice.json"]


def test_a_failed_conversion_leaves_nothing(checkpoint: Path, voice_json: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(checkpoint, tmp_path / "broken")
    config = tiny_orpheus.CONFIG | {"num_hidden_layers": tiny_orpheus.LAYERS + 1}
    (broken / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"the checkpoint has no tensor model\.layers\.2"):
        make_voice.make_voice(broken, tmp_path / "out", voice_json, "int8")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken", "voice.json"]


def test_nothing_is_overwritten(checkpoint: Path, voice_json: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(make_voice.VoiceError, match="exists; remove it"):
        make_voice.make_voice(checkpoint, tmp_path / "out", voice_json, "int8")


def test_a_full_disk_is_told_before(checkpoint: Path, voice_json: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_megabyte(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=10**6)

    monkeypatch.setattr(shutil, "disk_usage", one_megabyte)
    with pytest.raises(make_voice.VoiceError, match=r"0\.0 GB free, and the model in f32 takes 0\.1 GB"):
        make_voice.make_voice(checkpoint, tmp_path / "out", voice_json, "f32")
