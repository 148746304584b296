"""Which frames the codec must see, and which samples of its decode are new, so that streamed audio equals offline audio.

A SNAC decoder is convolutional but not causal: a sample depends on up to `context_latents` latents to each side. Once n frames
are known, samples up to latent `4 n - context_latents` are final. A window carries the frames that the new samples depend on,
to both sides, and so its new samples are exactly those of a decode of the whole utterance. At the end everything is final.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .framing import Frame
from .tokens import SLOTS_PER_FRAME


@dataclass(frozen=True)
class CodecShape:
    """What the planner must know of the codec; `context_latents` follows from the codec's config (snac_codec.receptive_field)."""

    context_latents: int
    latents_per_frame: int = 4
    samples_per_latent: int = 512
    sample_rate_hz: int = 24_000

    @property
    def samples_per_frame(self) -> int:
        return self.latents_per_frame * self.samples_per_latent

    @property
    def frame_s(self) -> float:
        return self.samples_per_frame / self.sample_rate_hz

    @property
    def first_exact_frames(self) -> int:
        """The fewest frames that make at least one latent final before the end of the stream is known."""
        return self.context_latents // self.latents_per_frame + 1


@dataclass(frozen=True)
class Window:
    """codes: int32 [7 * n_frames], slot order. Of the window's decode, samples [first_sample, first_sample + n_samples) are new.

    first_frame: index in the stream of the window's first frame, the position on the codec's noise tape.
    """

    codes: NDArray[np.int32]
    first_frame: int
    first_sample: int
    n_samples: int


def closing_window() -> Window:
    """A window without new samples, to carry the end of a stream that has nothing left to say (a cancelled one)."""
    return Window(np.zeros(SLOTS_PER_FRAME, np.int32), first_frame=0, first_sample=0, n_samples=0)


@dataclass
class PlannerState:
    """Mutated by `WindowPlanner` alone. Holds only the frames that a later window may still need.

    frames: those from index `first_frame` on; n_frames: all frames so far; planned_frames: the end of the last window;
    emitted_latents: latents whose samples have been planned.
    """

    frames: list[Frame] = field(default_factory=list[Frame])
    first_frame: int = 0
    planned_frames: int = 0
    emitted_latents: int = 0

    @property
    def n_frames(self) -> int:
        return self.first_frame + len(self.frames)

    @property
    def waiting_frames(self) -> int:
        """Frames that no window has ended with yet."""
        return self.n_frames - self.planned_frames


@dataclass(frozen=True)
class WindowPlanner:
    """lookahead_latents: right context of the first window; None (exact) is the codec's own context. Fewer give an earlier first
    chunk whose samples are approximate; every later sample is exact all the same."""

    shape: CodecShape
    lookahead_latents: int | None = None

    @property
    def first_frames(self) -> int:
        """Frames needed for a first chunk before the end of the stream is known."""
        return self.first_lookahead // self.shape.latents_per_frame + 1

    @property
    def first_lookahead(self) -> int:
        """Latents of right context that a first window is given."""
        return self.shape.context_latents if self.lookahead_latents is None else self.lookahead_latents

    def push(self, state: PlannerState, frames: list[Frame]) -> None:
        state.frames += frames

    def final_latents(self, state: PlannerState, upto_frame: int, at_end: bool) -> int:
        """Latents whose samples may be emitted once the window ends with frame `upto_frame` (exclusive)."""
        whole = upto_frame * self.shape.latents_per_frame
        if at_end:
            return whole
        context = self.first_lookahead if state.emitted_latents == 0 else self.shape.context_latents
        return max(state.emitted_latents, whole - context)

    def plan(self, state: PlannerState, upto_frame: int, at_end: bool = False) -> Window:
        """The window that ends with frame `upto_frame` (exclusive) and emits every sample that is then final.

        at_end: the stream ends with frame `upto_frame`. Raises ValueError where there is no such frame, or nothing to emit.
        """
        if not state.planned_frames <= upto_frame <= state.n_frames or (at_end and upto_frame != state.n_frames):
            raise ValueError(f"frame {upto_frame} is outside the planned {state.planned_frames} to the known {state.n_frames} frames")
        last = self.final_latents(state, upto_frame, at_end)
        if last == state.emitted_latents:
            raise ValueError(f"nothing is final at frame {upto_frame} that was not emitted before")
        start = self._first_needed_frame(state.emitted_latents)
        rows = state.frames[start - state.first_frame : upto_frame - state.first_frame]
        window = Window(
            codes=np.asarray(rows, np.int32).reshape(-1),
            first_frame=start,
            first_sample=(state.emitted_latents - start * self.shape.latents_per_frame) * self.shape.samples_per_latent,
            n_samples=(last - state.emitted_latents) * self.shape.samples_per_latent,
        )
        state.emitted_latents, state.planned_frames = last, upto_frame
        keep = self._first_needed_frame(last)
        del state.frames[: keep - state.first_frame]
        state.first_frame = max(keep, state.first_frame)
        return window

    def _first_needed_frame(self, latent: int) -> int:
        return max(0, latent - self.shape.context_latents) // self.shape.latents_per_frame
