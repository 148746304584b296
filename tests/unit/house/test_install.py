from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import install
import pytest


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    (tmp_path / "server.txt").write_text("# nothing\n")
    (tmp_path / "test.txt").write_text("-r server.txt\n")
    return tmp_path / "test.txt"


def test_the_environment_is_made_once(requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], folder: Path) -> None:
        commands.append(command)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()

    monkeypatch.setattr(install, "run", run)
    folder = tmp_path / "environment"
    install.install(folder, requirements, None)
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]
    install.install(folder, requirements, None)
    assert len(commands) == 2, "the second call finds everything in place"
    requirements.with_name("server.txt").write_text("numpy==1.26.4\n")
    install.install(folder, requirements, None)
    assert len(commands) == 4, "an included file has changed"


def test_a_broken_installation_is_repeated(requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], folder: Path) -> None:
        commands.append(command)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()
        if command[1:3] == ["-m", "pip"] and len(commands) == 2:
            raise install.InstallError("no network")

    monkeypatch.setattr(install, "run", run)
    with pytest.raises(install.InstallError):
        install.install(tmp_path / "environment", requirements, None)
    install.install(tmp_path / "environment", requirements, None)
    assert len(commands) == 4


def test_a_failed_command_shows_its_output(tmp_path: Path) -> None:
    with pytest.raises(install.InstallError, match="exit status 3:\nwhy it failed"):
        install.run([sys.executable, "-c", "print('why it failed'); raise SystemExit(3)"], tmp_path / "environment")


def test_an_unfit_python_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(install.InstallError, match=r"needs CPython 3\.10 to 3\.12.*make PYTHON="):
        install.check_python()


def test_a_python_without_venv_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_ensurepip(name: str) -> object:
        return None if name == "ensurepip" else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", without_ensurepip)
    with pytest.raises(install.InstallError, match=r"apt install python3\.\d+-venv"):
        install.check_python()
