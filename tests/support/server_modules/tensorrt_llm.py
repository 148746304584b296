"""`import tensorrt_llm` in a server under test: the fake of the library, speaking random codes in Orpheus's layout.

The server gets this file and fake_tensorrt_llm.py in orpheus_lm's version folder (tests/triton/test_tensorrt_llm_server.py). A file at
FAKE_TENSORRT_LLM_FAILS breaks every generation from then on.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import fake_tensorrt_llm  # pyright: ignore[reportMissingImports]

FRAMES, SLOTS, CODES = 30, 7, 4096
AUDIO_BASE, END_OF_SPEECH = 128_266, 128_258
STEP_S = 0.001


def speak(prompt: Sequence[int], said: Sequence[int]) -> int:
    """Stammers after the engine's probe, [0]; else FRAMES frames that follow from the prompt, and the end."""
    if list(prompt) == [0]:
        return 7
    if Path(os.environ["FAKE_TENSORRT_LLM_FAILS"]).exists():
        raise RuntimeError("the GPU has fallen off the bus")
    time.sleep(STEP_S)
    if len(said) == FRAMES * SLOTS:
        return END_OF_SPEECH
    code = random.Random(f"{list(prompt)} {len(said)}").randrange(CODES)
    return AUDIO_BASE + len(said) % SLOTS * CODES + code


fake_tensorrt_llm.install("1.2.1", speak)
