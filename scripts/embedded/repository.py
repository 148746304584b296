"""A model repository like another one, with other parameters or further modules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path


def copy_repository(
    source: Path,
    target: Path,
    parameters: Mapping[str, Mapping[str, str]] | None = None,
    modules: Mapping[str, Sequence[Path]] | None = None,
) -> Path:
    """Copy `source` to `target` (which must not exist) and return it.

    parameters: `parameters[model][key]` is set in the copy of config.pbtxt. Raises KeyError for one that is not there already: a typing
    error, most likely. modules: `modules[model]` are files put into the version folder, where the model can import them; PYTHONPATH does
    not reach models, for Triton runs them in an isolated Python.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for model, values in (parameters or {}).items():
        set_parameters(target / model, values)
    for model, files in (modules or {}).items():
        for file in files:
            shutil.copy2(file, target / model / "1")
    return target


def parameters(model: Path) -> dict[str, str]:
    """In config.pbtxt of the model's folder."""
    text = (model / "config.pbtxt").read_text(encoding="utf-8")
    return dict(re.findall(r'^parameters\s*{\s*key:\s*"(\w+)"\s*value\s*{\s*string_value:\s*"([^"]*)"', text, re.MULTILINE))


def set_parameters(model: Path, values: Mapping[str, str]) -> None:
    """In config.pbtxt of the model's folder. Raises KeyError for a parameter that is not there already."""
    config = model / "config.pbtxt"
    text = config.read_text(encoding="utf-8")
    for key, value in values.items():
        text = _with_parameter(text, key, value, model.name)
    config.write_text(text, encoding="utf-8")


def _with_parameter(text: str, key: str, value: str, model: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    pattern = re.compile(rf'(parameters\s*{{\s*key:\s*"{re.escape(key)}"\s*value\s*{{\s*string_value:\s*)"[^"]*"')
    changed, n = pattern.subn(lambda match: f'{match[1]}"{escaped}"', text)
    if n != 1:
        raise KeyError(f"{model}/config.pbtxt has {n} parameters {key!r}")
    return changed
