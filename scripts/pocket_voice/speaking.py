"""From codes and from real speech to the codec's audio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from snac import SNAC

from pocket_voice.codec import quantize
from pocket_voice.features import FeatureEncoder
from pocket_voice.layout import SLOTS, unflatten
from pocket_voice.prompt import AUDIO_BASE, END_OF_SPEECH, FIRST_CHARACTER, codes_of
from pocket_voice.teacher import Utterance

Audio = npt.NDArray[np.float32]
SPARE_FRAMES, FRAMES_PER_CHARACTER = 12, 2


def longest_answer(prompt: Sequence[int]) -> int:
    """Tokens after which the answer to a prompt counts as endless: by its phoneme characters, whatever stands around them."""
    characters = sum(FIRST_CHARACTER <= i < AUDIO_BASE for i in prompt)
    return SLOTS * (SPARE_FRAMES + FRAMES_PER_CHARACTER * characters)


@torch.inference_mode()
def through_codec(model: SNAC, encoder: FeatureEncoder, real: Utterance) -> Audio:
    latents = encoder(torch.from_numpy(real.audio)[None], torch.from_numpy(real.f0_hz)[None])
    return model.decoder(quantize(model, latents).latents)[0, 0].numpy()


@torch.inference_mode()
def spoken_frames(model: SNAC, ids: list[int]) -> Audio | None:
    """Generated ids, the end id among them -> audio; None where they did not end or lost the order of the slots."""
    frames = codes_of(ids[:-1], model.codebook_size) if ids and ids[-1] == END_OF_SPEECH else None
    if not frames:
        return None
    levels = [torch.from_numpy(level)[None] for level in unflatten(np.asarray(frames, np.int64))]
    return model.decode(levels)[0, 0].numpy()
