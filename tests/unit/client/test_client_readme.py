"""The code in the client's README runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scripted_triton import ScriptedTriton

README = Path(__file__).parents[3] / "client" / "README.md"


def test_the_readme_runs(
    scripted: Callable[..., ScriptedTriton], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = scripted()
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert "localhost:8001" in block
    exec(compile(block.replace("localhost:8001", server.url), str(README), "exec"), {})
    assert capsys.readouterr().out.count("samples") == 3
    assert Path("rain.wav").stat().st_size == 44 + 3 * 2048 * 2
    assert server.requests[-1].inputs["SEED"] == 7
