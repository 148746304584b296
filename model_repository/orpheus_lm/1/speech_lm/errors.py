"""What a request can be told. Messages never hold the caller's text."""

from __future__ import annotations


class SpeechError(Exception):
    """An error that is meant for the caller. `code` is the gRPC status name."""

    code = "INTERNAL"


class InvalidRequest(SpeechError):
    """The caller's mistake: the message names the field and the value."""

    code = "INVALID_ARGUMENT"


class Overloaded(SpeechError):
    """All stream slots are taken; trying again later may work."""

    code = "UNAVAILABLE"


class NoAudio(SpeechError):
    """The model ended without one whole frame of audio."""
