"""Through huggingface_hub itself, against a server that speaks the hub's protocol."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from fetch_weights import MODELS, FetchError, fetch, main
from support.fake_hub import Hub, running

WEIGHTS = bytes(range(256)) * 100_000
"""More than two of the blocks, of 10 MB, in which the library writes."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
    files = {
        "config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model-00001-of-00001.safetensors": WEIGHTS,
        "model.safetensors.index.json": b"{}", "optimizer.bin": b"x" * 1000, "README.md": b"hello",
    }  # fmt: skip
    with running(Hub(files, large={"model-00001-of-00001.safetensors", "optimizer.bin"})) as hub:
        yield hub


def test_only_the_needed_files_come(hub: Hub, tmp_path: Path) -> None:
    paths = fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    names = {"config.json", "tokenizer.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"}
    assert {path.name for path in paths} == names
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_file()} == names
    assert (tmp_path / "out" / "model-00001-of-00001.safetensors").read_bytes() == WEIGHTS
    assert not any("optimizer" in path for _, path, _ in hub.asked)


def test_a_second_call_fetches_nothing(hub: Hub, tmp_path: Path) -> None:
    fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    hub.asked.clear()
    fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    assert not [path for _, path, _ in hub.asked if "/resolve/" in path]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = [15_000_000]
    fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    assert (tmp_path / "out" / "model-00001-of-00001.safetensors").read_bytes() == WEIGHTS
    ranges = [range_ for method, path, range_ in hub.asked if method == "GET" and path.endswith(".safetensors")]
    assert any(range_.startswith("bytes=") and not range_.startswith("bytes=0-") for range_ in ranges)


@pytest.mark.parametrize("name", ["model-00001-of-00001.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_removed(hub: Hub, tmp_path: Path, name: str) -> None:
    hub.corrupt = {name}
    with pytest.raises(FetchError, match=rf"{name} arrived damaged"):
        fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    assert not (tmp_path / "out" / name).exists()
    hub.corrupt = set()
    fetch("owner/name", tmp_path / "out", endpoint=hub.url)
    assert (tmp_path / "out" / name).exists()


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "GatedRepo", "is gated: accept its terms on the hub with your account, and set HF_TOKEN"),
        (401, "RepoNotFound", "knows no model owner/name, or your token may not see it"),
        (404, "RepoNotFound", "knows no model owner/name"),
        (404, "RevisionNotFound", "has no revision v9"),
    ],
)
def test_refusals_say_what_to_do(hub: Hub, tmp_path: Path, status: int, code: str, message: str) -> None:
    hub.status, hub.error_code = status, code
    with pytest.raises(FetchError, match=message):
        fetch("owner/name", tmp_path / "out", revision="v9", endpoint=hub.url)


def test_a_full_disk_is_told_before_the_start(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1_000_000}))  # pyright: ignore
    with pytest.raises(FetchError, match=r"has 0\.0 GB free; 0\.3 GB are needed"):
        fetch("owner/name", tmp_path / "out", endpoint=hub.url)


def test_a_repository_without_a_model(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"README.md": b"hello"}
    with pytest.raises(FetchError, match="holds no model"):
        fetch("owner/name", tmp_path / "out", endpoint=hub.url)


def test_the_command(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    assert main(["owner/name", str(tmp_path / "out")]) == 0
    hub.status = 404
    assert main(["owner/other", str(tmp_path / "out")]) == 1
    assert "fetch_weights: " in capsys.readouterr().err


def test_every_preset_has_its_weights() -> None:
    presets = {path.parent.name for path in (Path(__file__).parents[3] / "presets").glob("*/voice.json")}
    assert presets <= set(MODELS)
