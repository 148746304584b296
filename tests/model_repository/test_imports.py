"""Import direction: pure parts stay pure, the backend's module stays in the adapters, nothing drags torch into the server."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from support.model_config import MODEL_REPOSITORY

ROOT = MODEL_REPOSITORY.parent
SPEECH_LM = MODEL_REPOSITORY / "orpheus_lm" / "1" / "speech_lm"
SNAC_CODEC = MODEL_REPOSITORY / "snac_decoder" / "1" / "snac_codec"
PURE = {
    SPEECH_LM: ("tokens", "framing", "windows", "chunking", "segments", "prompt"),
    SNAC_CODEC: ("receptive_field", "noise", "pcm", "config", "window", "tiles"),
}
SERVED = sorted(MODEL_REPOSITORY.rglob("*.py"))
TORCH_ENGINE = [SNAC_CODEC / "engines" / name for name in ("network.py", "torch.py")]
"""Imported only where the setting asks for torch."""


def imported(file: Path) -> set[str]:
    """Modules that a file imports, anywhere in it; those of its own package as `.name`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level
            found |= {prefix + node.module} if node.module else {prefix + alias.name for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("package", "module"), [(p, m) for p, modules in PURE.items() for m in modules], ids=lambda value: getattr(value, "name", value)
)
def test_pure_modules_import_numpy_the_standard_library_and_each_other(package: Path, module: str) -> None:
    allowed = sys.stdlib_module_names | {"numpy"}
    siblings = {f".{name}" for name in PURE[package]}
    others = {name for name in imported(package / f"{module}.py") if name not in siblings and name.split(".")[0] not in allowed}
    assert not others


@pytest.mark.parametrize("file", SERVED, ids=lambda file: str(file.relative_to(MODEL_REPOSITORY)))
def test_only_adapters_know_the_backend_one_engine_torch_and_nobody_the_rest_of_the_repository(file: Path) -> None:
    roots = {name.split(".")[0] for name in imported(file)}
    assert not roots & {"snac", "orpheus_client", "embedded", "support"}
    assert "torch" not in roots or file in TORCH_ENGINE
    assert ("triton_python_backend_utils" in roots) == (file.name == "model.py")


@pytest.mark.parametrize("file", SERVED, ids=lambda file: str(file.relative_to(MODEL_REPOSITORY)))
def test_text_files_are_read_with_an_encoding(file: Path) -> None:
    """Triton runs models in an isolated Python whose default encoding is ASCII, whatever the locale."""
    calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    readers = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text")]
    readers += [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]
    assert all("encoding" in {keyword.arg for keyword in call.keywords} for call in readers)


def test_the_client_knows_the_server_by_its_tensors_alone() -> None:
    for file in (ROOT / "client" / "src").rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(file)} & {"speech_lm", "snac_codec", "torch", "triton_python_backend_utils"}, (
            file
        )
