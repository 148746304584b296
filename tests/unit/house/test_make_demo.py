"""`make demo TEXT=...` hands the text on as it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.programs import executable

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "text",
    [
        "The train to London leaves at half past nine.",
        "She said: \"It's 5 o'clock\" & left.",
        "It costs $5, $$6 or $(7) ${HOME} `id` %s # no comment",
        "Grüße aus 東京 — naïve café 🙂",
        "-5 degrees; C:\\new\\table \\",
        "Two\nlines",
    ],
)
def test_the_text_survives_make_and_shell(text: str, tmp_path: Path) -> None:
    """Stand-ins for both Pythons: one that installs nothing, one that tells what text reached it."""
    for name, script in ((".venv/bin/python", 'printf %s "$ORPHEUS_DEMO_TEXT" > heard'), ("python", "true")):
        executable(tmp_path / name, script)
    command = ["make", "--file", str(ROOT / "Makefile"), "demo", f"TEXT={text}", f"PYTHON={tmp_path / 'python'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "heard").read_text(encoding="utf-8") == text
