"""What the server says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ServerError


@dataclass(frozen=True)
class Description:
    """The model's answer to DESCRIBE. defaults: sampling values used where a request gives none. limits: what the server takes."""

    voices: tuple[str, ...]
    sample_rate_hz: int
    samples_per_frame: int
    defaults: Mapping[str, Any]
    limits: Mapping[str, Any]
    model: str = ""

    @staticmethod
    def parse(text: str) -> Description:
        """Raises ServerError where it is no description."""
        try:
            given: dict[str, Any] = json.loads(text)
            return Description(
                voices=tuple(map(str, given["voices"])),
                sample_rate_hz=int(given["sample_rate_hz"]),
                samples_per_frame=int(given["samples_per_frame"]),
                defaults=dict(given["defaults"]),
                limits=dict(given["limits"]),
                model=str(given.get("model", "")),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ServerError(f"the server's description cannot be read: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Health:
    """What Triton says: live: the process answers; ready: the server can serve; models: readiness of each model that we use.

    Before release 26.04 Triton does not notice that a model's Python process has died; only speaking shows that.
    """

    live: bool
    ready: bool
    models: Mapping[str, bool]
    server_version: str

    @property
    def ok(self) -> bool:
        return self.live and self.ready and all(self.models.values())
