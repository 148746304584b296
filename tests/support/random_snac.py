"""The full SNAC 24 kHz architecture with random weights, loud enough that a difference in its output shows. Needs torch and snac."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SNAC_24KHZ: dict[str, Any] = {
    "sampling_rate": 24000, "encoder_dim": 48, "encoder_rates": [2, 4, 8, 8], "decoder_dim": 1024, "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None, "codebook_size": 4096, "codebook_dim": 8, "vq_strides": [4, 2, 1], "noise": True, "depthwise": True,
}  # fmt: skip
"""hubertsiuzdak/snac_24khz, config.json."""


def random_snac() -> Any:
    """A torch model in evaluation mode whose output has the loudness of speech; the same each time."""
    import torch
    from snac import SNAC

    torch.manual_seed(0)
    model: Any = SNAC(**SNAC_24KHZ).eval()
    codes = [torch.randint(0, 4096, (1, n)) for n in (8, 16, 32)]
    with torch.no_grad():
        last = model.decoder.model[-2]
        last.parametrizations.weight.original0 *= 0.2 / model.decode(codes).std()
    return model


def save_snac(model: Any, checkpoint: Path, config: dict[str, Any] = SNAC_24KHZ) -> Path:
    """As a checkpoint folder; config: what the model was made with."""
    import torch

    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "config.json").write_text(json.dumps(config))
    torch.save(model.state_dict(), checkpoint / "pytorch_model.bin")
    return checkpoint
