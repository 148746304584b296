"""The audio part of a speech LM's vocabulary: which token id means which code in which slot of a frame.

Orpheus flattens SNAC's three codebooks into 7 slots per frame, each slot with a range of ids of its own
(canopyai/Orpheus-TTS, orpheus_tts/decoder.py): level 0 is slot 0, level 1 slots 1 and 4, level 2 slots 2, 3, 5 and 6.
A token id therefore says by itself which slot it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOTS_PER_FRAME = 7


@dataclass(frozen=True)
class TokenSpace:
    """Where audio lives in a vocabulary.

    audio_base: id of code 0 in slot 0; slot s, code c is id `audio_base + s * codebook_size + c`.
    codebook_size: codes run from 0 to codebook_size - 1; both ends are legal codes.
    end_ids: ids that end the speech wherever they come.
    """

    audio_base: int
    codebook_size: int
    end_ids: frozenset[int]

    def locate(self, token_id: int) -> tuple[int, int] | None:
        """(slot, code) of an audio token; None for any other id."""
        slot, code = divmod(token_id - self.audio_base, self.codebook_size)
        return (slot, code) if 0 <= slot < SLOTS_PER_FRAME else None

    def token_id(self, slot: int, code: int) -> int:
        """The inverse of `locate`."""
        return self.audio_base + slot * self.codebook_size + code
