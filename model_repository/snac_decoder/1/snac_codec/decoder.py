"""Codes to float audio on ONNX Runtime. The graph (scripts/export_codec.py) holds the noise tape and the order of the slots.

It computes of each layer only what the wanted samples depend on: a window carries five frames of context for the early layers, which are
cheap,
and the late layers, which are not, need a few dozen samples of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .config import CODES_PER_FRAME, CodecConfig, load_config
from .receptive_field import needed_spans


class Decoder(Protocol):
    config: CodecConfig

    def decode(self, codes: NDArray[np.int32], first_frames: NDArray[np.int64], first_sample: int, n_samples: int) -> NDArray[np.float32]:
        """codes int32 [batch, 7 * n_frames], first_frames int64 [batch] -> samples first_sample to first_sample + n_samples of their
        decodes,
        float32 [batch, n_samples]. n_samples is at least 1."""
        ...


class OnnxDecoder:
    """folder: config.json and decoder.onnx. Raises ValueError for files that do not fit.

    A forward runs on one core; `decode` may be called from several threads at once.
    """

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        ort: Any = onnxruntime

        self.config = load_config(folder)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Silence and fading tails make denormals, which cost many times a normal product.
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        path = folder / "decoder.onnx"
        if not path.is_file():
            raise ValueError(f"{path} is missing: scripts/export_codec.py makes it from a SNAC checkpoint")
        try:
            self._session: Any = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        made_for = self._session.get_modelmeta().custom_metadata_map.get("codebook_size")
        if made_for != str(self.config.codebook_size):
            raise ValueError(f"{path} was made for a codebook size of {made_for}, config.json says {self.config.codebook_size}")

    def decode(self, codes: NDArray[np.int32], first_frames: NDArray[np.int64], first_sample: int, n_samples: int) -> NDArray[np.float32]:
        latents = codes.shape[1] // CODES_PER_FRAME * self.config.latents_per_frame
        spans = needed_spans(self.config.decoder_rates, latents, first_sample, n_samples)
        return self._session.run(["audio"], {"codes": codes, "first_frame": first_frames, "spans": spans})[0]


def warm_up(decoder: Decoder, frames: Iterable[int], batch: int) -> None:
    """Decode silence-like windows of each length once, so that the first listener does not pay for it. Raises ValueError for wrong
    output."""
    for n_frames in frames:
        wanted = (batch, decoder.config.samples_per_frame * n_frames)
        audio = decoder.decode(np.zeros((batch, CODES_PER_FRAME * n_frames), np.int32), np.zeros(batch, np.int64), 0, wanted[1])
        if audio.shape != wanted or not np.isfinite(audio).all():
            raise ValueError(f"the decoder made {audio.shape} samples of {n_frames} frames, wanted were finite ones of shape {wanted}")
