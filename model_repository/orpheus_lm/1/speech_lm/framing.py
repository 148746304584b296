"""Token ids to whole frames, losing nothing: the framer resynchronises by slot.

The rules (`Framer`) are frozen; what a stream has seen so far (`FramerState`) is plain data, so that the result
depends on the sequence of ids alone and never on how it was split into updates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .tokens import SLOTS_PER_FRAME, TokenSpace

Frame = tuple[int, ...]
"""7 codes in slot order, without slot offsets."""


@dataclass
class FramerState:
    """Mutated by `Framer.push` alone. The counters tell what the stream met:

    resyncs: times the expected slot did not come; dropped_codes: audio tokens lost to that;
    foreign_ids: ids skipped because they are neither audio nor an end; tokens: all ids seen, the end included.
    """

    partial: list[int] = field(default_factory=list[int])
    lost: bool = False
    ended: bool = False
    tokens: int = 0
    resyncs: int = 0
    dropped_codes: int = 0
    foreign_ids: int = 0


@dataclass(frozen=True)
class Framer:
    space: TokenSpace

    def push(self, state: FramerState, token_ids: Iterable[int]) -> list[Frame]:
        """Take any number of token ids and return the frames that they complete.

        On an audio token of an unexpected slot the broken frame is dropped, the event counted, and everything skipped up to
        the next slot 0: one bad token costs at most one frame. After an end id nothing is taken any more; a partial frame at the end is
        never returned.
        """
        frames: list[Frame] = []
        for token_id in token_ids:
            if state.ended:
                break
            state.tokens += 1
            if token_id in self.space.end_ids:
                state.ended = True
                break
            place = self.space.locate(token_id)
            if place is None:
                state.foreign_ids += 1
                continue
            slot, code = place
            if slot != len(state.partial):
                if not state.lost:
                    state.resyncs += 1
                    state.dropped_codes += len(state.partial)
                    state.partial.clear()
                if slot != 0:
                    state.lost = True
                    state.dropped_codes += 1
                    continue
            state.lost = False
            state.partial.append(code)
            if len(state.partial) == SLOTS_PER_FRAME:
                frames.append(tuple(state.partial))
                state.partial.clear()
        return frames
