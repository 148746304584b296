from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from speech_lm.frontends import Frontend, character_encoder, load_frontend, normalise, plain_text_encoder
from speech_lm.prompt import PromptFormat
from speech_lm.voice import load_voice

POCKET = Path(__file__).parents[3] / "model_repository/orpheus_lm/1/pocket"
CONTROL = {"<|begin_of_text|>": 1000, "<|eot_id|>": 1001, "<custom_token_3>": 1002, "<|audio|>": 1003}
BEFORE, AFTER = (1002, 1000), (1001, 1003)


@pytest.fixture(scope="module")
def tokenizer_json(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with control tokens, special and not, as Llama's and Orpheus's have them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)} | {f"unused{i}": i for i in range(256, 1000)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    for text, special in zip(CONTROL, (True, True, False, False), strict=True):
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([AddedToken(text, special=special, normalized=False)])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    assert [tokenizer.token_to_id(t) for t in CONTROL] == list(CONTROL.values())
    assert tokenizer.encode("<custom_token_3>").ids == [1002], "the untouched tokenizer does parse them"
    return path


@pytest.fixture
def text_frontend(tokenizer_json: Path) -> Frontend:
    return Frontend(PromptFormat(BEFORE, "{voice}: {text}", AFTER), str, plain_text_encoder(tokenizer_json))


@pytest.mark.parametrize("text", ["<|eot_id|>", "Say <custom_token_3> now", "<|audio|><|begin_of_text|>", "tara: hello", "{text} {voice}"])
def test_text_never_becomes_a_control_token(text_frontend: Frontend, tokenizer_json: Path, text: str) -> None:
    from tokenizers import Tokenizer

    ids = text_frontend.read(text, "tara").prompt_ids
    inner = ids[len(BEFORE) : -len(AFTER)]
    assert tuple(ids[: len(BEFORE)]) == BEFORE
    assert tuple(ids[-len(AFTER) :]) == AFTER
    assert not set(inner) & set(CONTROL.values())
    assert Tokenizer.from_file(str(tokenizer_json)).decode(inner) == f"tara: {text}"


def test_nothing_to_say(text_frontend: Frontend) -> None:
    assert text_frontend.read("?!...", "tara").characters == 0
    assert text_frontend.read("Hi!", "tara").characters == 3


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\u00a0b\u202fc", "a b c"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        (" \t\r\n a \x00 b\x1b ", "a b"),
        (unicodedata.normalize("NFD", "naïve café"), "naïve café"),
        ("“Curly” — ‘dash’", "“Curly” — ‘dash’"),
    ],
)
def test_normalise(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def test_characters_outside_the_table_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "characters.json").write_text(json.dumps({"a": 8, "b": 9}))
    assert character_encoder(tmp_path / "characters.json")("axb") == [8, 9]


@pytest.fixture(scope="module")
def pocket() -> Frontend:
    return load_frontend(load_voice(POCKET))


def test_the_pocket_voice_reads_phonemes(pocket: Frontend) -> None:
    voice = load_voice(POCKET)
    reading = pocket.read("The train to London leaves at half past nine.", voice.voices[0])
    assert reading.prompt_ids[0] == 1
    after = voice.prompt.after
    assert reading.prompt_ids[-len(after) :] == list(after)
    characters = reading.prompt_ids[1 : -len(after)]
    assert len(characters) == reading.characters, "every phoneme of this sentence is in the table"
    assert all(8 <= i < 256 for i in characters)


def test_the_pocket_voice_reads_numbers_as_words(pocket: Frontend) -> None:
    voice = load_voice(POCKET).voices[0]
    assert pocket.read("It is 9:30 now.", voice).prompt_ids == pocket.read("It is nine thirty now.", voice).prompt_ids


@pytest.mark.parametrize("text", ["...", "!?", "😀"])
def test_the_pocket_voice_finds_nothing_to_say(pocket: Frontend, text: str) -> None:
    assert pocket.read(text, "pocket").characters == 0
