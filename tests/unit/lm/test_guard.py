"""The guard's eye for its server's stubs; what it does with them is tested on a real server (tests/triton/test_vanished_clients.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from speech_lm import guard


def process(processes: Path, pid: int, *words: str) -> None:
    (processes / f"{pid}").mkdir()
    (processes / f"{pid}" / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")


def test_only_stubs_of_this_server_are_found(tmp_path: Path) -> None:
    stub = ("/opt/triton_python_backend_stub", "/models/m/1/model.py", "triton_python_backend_shm_region_a", "8388608", "1048576")
    process(tmp_path, 10, *stub, "7", "/opt")
    process(tmp_path, 11, *stub, "8", "/opt")
    process(tmp_path, 12, "/usr/bin/python3", *stub[1:], "7", "/opt")
    process(tmp_path, 13, *stub[:3])
    process(tmp_path, 14)
    (tmp_path / "15").mkdir()  # ended while we look
    (tmp_path / "self").mkdir()
    assert guard.stubs_of(7, tmp_path) == {10: "triton_python_backend_shm_region_a"}


def test_regions_go_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(server: int) -> dict[int, str]:
        return {}

    monkeypatch.setattr(guard, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(guard, "stubs_of", nobody)
    for name in ("triton_python_backend_shm_region_a", "triton_python_backend_shm_region_b", "mine"):
        (tmp_path / name).touch()
    guard.clean_up(7, {"triton_python_backend_shm_region_a", "mine", "../mine", "triton_python_backend_shm_region_/../mine"})
    assert {path.name for path in tmp_path.iterdir()} == {"triton_python_backend_shm_region_b", "mine"}


def test_it_ends_with_the_stub() -> None:
    """The model has been unloaded: another guard comes with the next load."""
    server, stub = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    watching = subprocess.Popen([sys.executable, "-I", "-S", guard.__file__, f"{server.pid}", f"{stub.pid}"])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            watching.wait(1.0)
        stub.kill()
        assert watching.wait(10) == 0
        assert server.poll() is None
    finally:
        for started in (server, stub, watching):
            started.kill()
            started.wait()
