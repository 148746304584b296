"""What differs between the releases of TensorRT-LLM that the engine knows: the one table of it.

Read in NVIDIA/TensorRT-LLM: tests/unittest/api_stability/references/llm.yaml and tensorrt_llm/llmapi/llm_args.py at 1.0.0rc4 and in the 1.2
line (`enable_trtllm_sampler` became `sampler_type`), pull request 16485 for the default sampler's repetition penalty (in 1.3.0rc26 and
later, where `sampler_type` no longer takes TRTLLMSampler).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

ENVIRONMENT = {"TRTLLM_NO_USAGE_STATS": "1"}
"""Set before the import: from 1.3 on usage statistics are sent otherwise (tensorrt_llm/usage)."""


@dataclass(frozen=True)
class Release:
    """since: of this release on. sampler: arguments of LLM with which a repetition penalty has an effect. stream_interval: tokens from one
    update to the next; 1 where a larger one would hold the first token back as well."""

    since: str
    sampler: Mapping[str, object]
    stream_interval: int


RELEASES = (
    Release("1.0.0rc4", {"enable_trtllm_sampler": True}, stream_interval=1),
    Release("1.1.0rc0", {"sampler_type": "TRTLLMSampler"}, stream_interval=7),
    Release("1.3.0rc26", {}, stream_interval=7),
)
NEWEST = "1.4"

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:(a|b|rc)(\d+))?")
_FINAL = ("z", 0)


def release_of(version: str) -> Release:
    """The table's row for a version such as 1.2.1 or 1.3.0rc26. Raises ValueError for one that is too old or no version; a newer one than
    is known is treated as the newest, with a warning in the log."""
    key = _key(version)
    if key[:2] > _key(NEWEST)[:2]:
        log.warning("TensorRT-LLM %s is newer than %s, the newest that this engine knows; treated like that", version, NEWEST)
    known = [release for release in RELEASES if _key(release.since) <= key]
    if not known:
        raise ValueError(f"TensorRT-LLM {version} is too old: needs {RELEASES[0].since} to {NEWEST}")
    return known[-1]


def _key(version: str) -> tuple[int, int, int, tuple[str, int]]:
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"TensorRT-LLM calls its version {version!r}, which is none that this engine understands")
    major, minor, patch, stage, number = match.groups()
    return int(major), int(minor), int(patch or 0), (stage, int(number)) if stage else _FINAL
