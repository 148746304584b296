"""Streamed speech from an Orpheus-style model on a Triton Inference Server.

    with Client("localhost:8001") as client, client.stream("Good morning.", voice="tara") as speech:
        for chunk in speech:
            play(chunk.samples)  # int16 [n], speech.sample_rate_hz

`AsyncClient` has the same names. Errors: `orpheus_client.errors`.
"""

from __future__ import annotations

from .async_client import AsyncClient, AsyncSpeechStream
from .audio import RawWriter, SampleFormat, WavWriter
from .connection import Tls
from .errors import (
    AccessDenied,
    ChunkTimeout,
    EmptySpeech,
    FirstAudioTimeout,
    InvalidRequest,
    OrpheusError,
    Overloaded,
    ServerError,
    ServerUnavailable,
    StreamBroken,
    TimeoutExceeded,
    TotalTimeout,
)
from .server_info import Description, Health
from .speech import Chunk, Speech, SpeechOptions
from .sync_client import Client, SpeechStream
from .timeouts import Timeouts
from .timings import Timings, Underrun
from .version import VERSION as __version__

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "AsyncSpeechStream",
    "Chunk",
    "ChunkTimeout",
    "Client",
    "Description",
    "EmptySpeech",
    "FirstAudioTimeout",
    "Health",
    "InvalidRequest",
    "OrpheusError",
    "Overloaded",
    "RawWriter",
    "SampleFormat",
    "ServerError",
    "ServerUnavailable",
    "Speech",
    "SpeechOptions",
    "SpeechStream",
    "StreamBroken",
    "TimeoutExceeded",
    "Timeouts",
    "Timings",
    "Tls",
    "TotalTimeout",
    "Underrun",
    "WavWriter",
    "__version__",
]
