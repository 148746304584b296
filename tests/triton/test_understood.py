"""Somebody else understands what the server says: pocketsphinx, with the English model inside its wheel."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
from embedded.running import RunningServer
from numpy.typing import NDArray
from orpheus_client import Client

SENTENCES = (
    "The train to London leaves at half past nine.",
    "Please close the door when you leave the room.",
    "She put the letter on the table and went outside.",
    "We could see the mountains from the kitchen window.",
)


def words_heard(samples: NDArray[np.int16]) -> list[str]:
    import pocketsphinx
    import scipy.signal

    resample_poly = cast(Any, scipy.signal).resample_poly
    decoder = cast(Any, pocketsphinx).Decoder(samprate=16000, loglevel="FATAL")
    loud = np.pad(samples / max(1, np.abs(samples).max()) * 0.7, (4800, 4800))
    decoder.start_utt()
    decoder.process_raw((resample_poly(loud, 2, 3) * 32767).astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr.split() if found else []


def test_most_words_are_understood(server: RunningServer) -> None:
    said = understood = 0
    with Client(server.grpc_url) as client:
        for sentence in SENTENCES:
            words = re.sub(r"[^a-z ]", "", sentence.lower()).split()
            heard = words_heard(client.synthesize(sentence, seed=3).samples)
            said += len(words)
            understood += sum(word in heard for word in words)
    assert understood >= 0.7 * said, f"{understood} of {said} words"


def test_noise_is_not_understood() -> None:
    """Else the test above could not fail."""
    noise = (np.random.default_rng(0).standard_normal(60_000) * 3000).astype(np.int16)
    assert not set(words_heard(noise)) & {"train", "london", "half", "past", "nine"}
