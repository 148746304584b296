"""The repository as a whole: what it promises about itself, and what must never get into it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
MAX_TRACKED_BYTES = 40 << 20
MAX_LINES = 400
TEXT_SUFFIXES = {".py", ".pyi", ".md", ".toml", ".txt", ".pbtxt", ".json", ".yml", ".yaml", ".sh", ".cfg", ""}

# In pieces, so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile("|".join(rf"(?<![\w.~>])/{name}/\w" for name in ("home", "root", "work", "Users", "mnt")))
PACKAGE_REGISTRIES = re.compile(
    "|".join(rf"{name}\.{end}" for name, end in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "(org|com)")))
)


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    return [(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")) for file in tracked() if file.suffix in TEXT_SUFFIXES]


@pytest.mark.parametrize("forbidden", [MACHINE_PATHS, PACKAGE_REGISTRIES], ids=["machine paths", "package registries"])
def test_no_file_names_somebodys_machine(forbidden: re.Pattern[str]) -> None:
    found = [f"{name}: {match[0]}" for name, text in texts() for match in forbidden.finditer(text)]
    assert not found


def test_a_clone_is_small() -> None:
    assert sum(file.stat().st_size for file in tracked()) < MAX_TRACKED_BYTES


def test_source_files_are_short_enough_to_read() -> None:
    long = {name: n for name, text in texts() if name.endswith(".py") and (n := text.count("\n")) > MAX_LINES}
    assert not long


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))])
def test_documented_make_targets_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, re.MULTILINE))
    used = set(re.findall(r"^\s*(?:nice )?make ([a-z][\w-]*)|`make ([a-z][\w-]*)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert {first or second for first, second in used} <= targets


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))])
def test_links_within_the_repository_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not ((ROOT / page).parent / link).exists()]
    assert not missing


def test_every_make_target_is_in_its_help() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    listed = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^make ([a-z-]+)", listed, re.MULTILINE)) == set(phony[1].split())


@pytest.mark.parametrize("file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda file: file.name)
def test_requirements_are_pinned_to_one_version(file: Path) -> None:
    lines = [line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    pin = re.compile(r'-r \S+|[\w.-]+(\[[\w,]+\])?==[\w.]+(; python_version (<|>=) "3\.\d+")?')
    loose = [line for line in lines if line and not pin.fullmatch(line)]
    assert not loose
