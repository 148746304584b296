"""Every error that this package raises, and how the server's failures become one of them.

A gRPC stream hands on only the message of an error inside it, without a status code, so the server's models put the code in front:
"[INVALID_ARGUMENT] VOICE 'x' is unknown". Triton's ensemble adds words before that. A message without a code is Triton's own.
"""

from __future__ import annotations

import re
from typing import ClassVar


class OrpheusError(Exception):
    """Base of all. `request_id`: of the utterance it befell, "" outside of one.

    `retryable`: nothing was heard yet and the same request may succeed if it is sent again.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, request_id: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id


class InvalidRequest(OrpheusError):
    """The request is at fault; the message names the field and the value. An unknown voice comes with the list of voices."""


class AccessDenied(OrpheusError):
    """A gateway in front of the server wants other credentials."""


class Overloaded(OrpheusError):
    """The server has no room for one more stream now."""

    retryable = True


class ServerUnavailable(OrpheusError):
    """The server cannot be reached, is starting or shutting down, or has not loaded the model."""

    retryable = True


class ServerError(OrpheusError):
    """The server failed before any audio came."""


class TimeoutExceeded(OrpheusError, TimeoutError):
    """One of the deadlines in `Timeouts` has passed."""


class FirstAudioTimeout(TimeoutExceeded):
    """No audio within `first_audio_s`."""

    retryable = True


class ChunkTimeout(TimeoutExceeded):
    """The stream stood still for `between_chunks_s`."""


class TotalTimeout(TimeoutExceeded):
    """The utterance was not complete within `total_s`."""


class StreamBroken(OrpheusError):
    """The stream failed after audio had come, or broke the protocol: what was received is not the whole utterance.

    Not retryable by itself: part of it may have been heard, so only the caller can decide to begin again. `__cause__` is the failure, where
    it is known.
    """


class EmptySpeech(OrpheusError):
    """The stream ended as it should, yet holds nothing that can be heard."""


_IN_STREAM: dict[str, type[OrpheusError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "UNAVAILABLE": Overloaded,  # the models say it where all stream slots are taken
    "RESOURCE_EXHAUSTED": Overloaded,
    "INTERNAL": ServerError,
}
_STATUS: dict[str, type[OrpheusError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "UNAUTHENTICATED": AccessDenied,
    "PERMISSION_DENIED": AccessDenied,
    "RESOURCE_EXHAUSTED": Overloaded,
    "UNAVAILABLE": ServerUnavailable,
    "CANCELLED": ServerUnavailable,
    "DEADLINE_EXCEEDED": TimeoutExceeded,
}
_CODED = re.compile(rf"\[({'|'.join(_IN_STREAM)})\] (.*)", re.DOTALL)
# Triton's own words where a model cannot serve now: triton-inference-server/core src/model_repository_manager, src/server.cc;
# python_backend src/python_be.cc (a model's process died); server src/grpc/stream_infer_handler.cc.
_CANNOT_SERVE = re.compile(r"Request for unknown model|[Ss]erver not ready|is not ready|is shutting down|is not healthy")


def from_stream_message(message: str, request_id: str) -> OrpheusError:
    """The error for `error_message` of a streamed response."""
    coded = _CODED.search(message)
    if coded:
        return _IN_STREAM[coded[1]](coded[2], request_id)
    kind = ServerUnavailable if _CANNOT_SERVE.search(message) else ServerError
    return kind(message, request_id)


def from_status(code: str, details: str, request_id: str) -> OrpheusError:
    """The error for a call that failed. code: the gRPC status's name."""
    return _STATUS.get(code, ServerError)(f"{code}: {details}", request_id)
