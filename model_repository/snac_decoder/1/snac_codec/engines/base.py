"""What an engine of the codec is: a network on tiles of a few sizes, ready for as many calls at once as it says."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..config import CodecConfig
from ..tiles import TileInputs


class Engine(Protocol):
    """sizes: latents of the tiles that it decodes; max_rows: tiles in one forward; calls: forwards side by side."""

    config: CodecConfig
    sizes: tuple[int, ...]
    max_rows: int
    calls: int

    def decode(self, inputs: TileInputs) -> NDArray[np.float32]:
        """At most max_rows tiles of one of the sizes -> their new samples, float32 [tiles, latents * samples per latent]. May be called
        from `calls` threads at once."""
        ...

    def close(self) -> None: ...
