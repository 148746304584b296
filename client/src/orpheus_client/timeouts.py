"""All deadlines in one value."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Timeouts:
    """Seconds; None for no limit, except where noted.

    connect_s: one attempt to connect, until the server has spoken HTTP/2 (always limited).
    first_audio_s: from opening the stream to its first sample; also the wait for an answer of voices(), describe() and health().
    between_chunks_s: from one chunk's arrival to the next.
    total_s: from opening the stream to its last chunk, retries included.
    close_s: the wait for the server's side to end after a cancel, before the call is cut off (always limited).
    """

    connect_s: float = 5.0
    first_audio_s: float | None = 15.0
    between_chunks_s: float | None = 10.0
    total_s: float | None = None
    close_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value: float | None = getattr(self, field.name)
            if value is None and field.name in ("connect_s", "close_s"):
                raise ValueError(f"{field.name} must have a limit")
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above 0, not {value}")
