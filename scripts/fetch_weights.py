"""Fetch a model's weights from the Hugging Face hub: only the files that serving needs, resumed where they stopped, checked when they are
there.

    python scripts/fetch_weights.py orpheus-3b weights/orpheus-3b
    python scripts/fetch_weights.py snac-24khz weights/snac
    python scripts/fetch_weights.py OWNER/NAME weights/other --revision COMMIT

A gated model needs an account that accepted its terms, and its token in HF_TOKEN (or `hf auth login`); `orpheus-3b` is an ungated mirror of
the gated `orpheus-3b-gated`. HF_ENDPOINT names another hub. Downloading, resuming and locking is huggingface_hub's; it checks sizes only,
so the checksums are compared here: SHA-256 of large files, git's own of small ones. Not run against the real hub: tests use a server that
speaks its protocol.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download  # pyright: ignore[reportUnknownVariableType]
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

LANGUAGE_MODEL = ("config.json", "generation_config.json", "hf_quant_config.json", "tokenizer.json", "tokenizer_config.json",
                  "special_tokens_map.json", "model*.safetensors", "model.safetensors.index.json")  # fmt: skip
CODEC = ("config.json", "pytorch_model.bin", "model.safetensors")
MODELS = {
    "orpheus-3b": ("unsloth/orpheus-3b-0.1-ft", LANGUAGE_MODEL),
    "orpheus-3b-gated": ("canopylabs/orpheus-3b-0.1-ft", LANGUAGE_MODEL),
    "maya1": ("maya-research/maya1", LANGUAGE_MODEL),
    "svara": ("kenpath/svara-tts-v1", LANGUAGE_MODEL),
    "veena": ("maya-research/Veena", LANGUAGE_MODEL),
    "snac-24khz": ("hubertsiuzdak/snac_24khz", CODEC),
}
SPARE_BYTES = 256 << 20
BLOCK_BYTES = 8 << 20


class FetchError(Exception):
    """The message says what to do."""


@dataclass(frozen=True)
class RemoteFile:
    """sha256: of a large file's content; git_sha1: of a small one, as git hashes a blob. One of the two."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


def fetch(model: str, out: Path, revision: str | None = None, endpoint: str | None = None) -> list[Path]:
    """The files' paths. Raises FetchError; what has arrived by then stays, and a later call goes on from there."""
    repository, patterns = MODELS.get(model, (model, LANGUAGE_MODEL))
    try:
        commit, files = wanted_files(repository, patterns, revision, endpoint)
        out.mkdir(parents=True, exist_ok=True)
        check_space(out, files)
        return [fetch_one(repository, commit, file, out, endpoint) for file in files]
    except GatedRepoError:
        raise FetchError(
            f"{repository} is gated: accept its terms on the hub with your account, and set HF_TOKEN to a token of that account"
        ) from None
    except RepositoryNotFoundError:
        raise FetchError(f"the hub knows no model {repository}, or your token may not see it") from None
    except RevisionNotFoundError:
        raise FetchError(f"{repository} has no revision {revision}") from None
    except (HfHubHTTPError, OSError) as error:
        raise FetchError(f"{repository}: {error}; call again to go on from what has arrived") from error


def wanted_files(repository: str, patterns: Sequence[str], revision: str | None, endpoint: str | None) -> tuple[str, list[RemoteFile]]:
    """The commit that the revision names, and its files that match."""
    info = HfApi(endpoint=endpoint).model_info(repository, revision=revision, files_metadata=True)
    files = [
        RemoteFile(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None, None if s.lfs else s.blob_id)
        for s in info.siblings or []
        if any(fnmatch(s.rfilename, pattern) for pattern in patterns)
    ]
    if info.sha is None or not any(file.name == "config.json" for file in files) or len(files) < 2:
        raise FetchError(f"{repository} holds no model of a kind that this server knows: found {[file.name for file in files]}")
    return info.sha, sorted(files, key=lambda file: file.size)


def check_space(out: Path, files: Sequence[RemoteFile]) -> None:
    missing = sum(file.size for file in files if not (out / file.name).exists()) + SPARE_BYTES
    free = shutil.disk_usage(out).free
    if missing > free:
        raise FetchError(f"{out} has {free / 1e9:.1f} GB free; {missing / 1e9:.1f} GB are needed")


def fetch_one(repository: str, commit: str, file: RemoteFile, out: Path, endpoint: str | None) -> Path:
    path = out / file.name
    if not (path.is_file() and matches(path, file)):
        path = Path(hf_hub_download(repository, file.name, revision=commit, local_dir=out, endpoint=endpoint))
        if not matches(path, file):
            path.unlink()
            raise FetchError(f"{file.name} arrived damaged (its checksum differs from the hub's) and was removed; call again")
    print(f"{path}: {file.size / 1e6:.1f} MB, checksum right", file=sys.stderr)
    return path


def matches(path: Path, file: RemoteFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    if file.sha256 is not None:
        return _digest(path, hashlib.sha256()) == file.sha256
    return _digest(path, hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)) == file.git_sha1


def _digest(path: Path, hasher: hashlib._Hash) -> str:  # pyright: ignore[reportPrivateUsage]
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            hasher.update(block)
    return hasher.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help=f"one of {', '.join(MODELS)}, or OWNER/NAME of a Llama checkpoint")
    parser.add_argument("out", type=Path)
    parser.add_argument("--revision", help="commit, tag or branch; default: the newest")
    args = parser.parse_args(arguments)
    try:
        fetch(args.model, args.out, args.revision, os.environ.get("HF_ENDPOINT"))
    except FetchError as error:
        print(f"fetch_weights: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
