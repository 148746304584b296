"""What the command's exit code says; the help shows this table."""

from __future__ import annotations

from enum import IntEnum

from .. import errors


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID_REQUEST = 3
    UNAVAILABLE = 4
    OVERLOADED = 5
    TIMEOUT = 6
    BROKEN_STREAM = 7
    EMPTY_SPEECH = 8
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143


MEANINGS = {
    ExitCode.OK: "all went well",
    ExitCode.FAILED: "the server failed, a file could not be written, or runs of a benchmark failed",
    ExitCode.USAGE: "wrong use of this command",
    ExitCode.INVALID_REQUEST: "the server refuses the request: a value, the voice, the credentials",
    ExitCode.UNAVAILABLE: "the server cannot be reached or is not ready (may be tried again)",
    ExitCode.OVERLOADED: "the server has no room for one more stream (may be tried again)",
    ExitCode.TIMEOUT: "a time limit has passed",
    ExitCode.BROKEN_STREAM: "the stream broke: the audio so far is not the whole utterance",
    ExitCode.EMPTY_SPEECH: "the utterance holds nothing that can be heard",
    ExitCode.INTERRUPTED: "interrupted; the server was told to stop",
    ExitCode.CLOSED_PIPE: "the reader of our output has gone; the server was told to stop",
    ExitCode.TERMINATED: "terminated; the server was told to stop",
}
_BY_ERROR: tuple[tuple[type[errors.OrpheusError], ExitCode], ...] = (
    (errors.InvalidRequest, ExitCode.INVALID_REQUEST),
    (errors.AccessDenied, ExitCode.INVALID_REQUEST),
    (errors.ServerUnavailable, ExitCode.UNAVAILABLE),
    (errors.Overloaded, ExitCode.OVERLOADED),
    (errors.TimeoutExceeded, ExitCode.TIMEOUT),
    (errors.StreamBroken, ExitCode.BROKEN_STREAM),
    (errors.EmptySpeech, ExitCode.EMPTY_SPEECH),
)


def exit_code(error: errors.OrpheusError) -> ExitCode:
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.FAILED)
