"""What Orpheus 3B in FP8 and SNAC would cost on GPUs: on paper, from data sheets. Nothing here has been measured.

A step of the language model reads every weight and every stream's key-value cache once, and multiplies each weight with each stream's
token: it takes the longer of the two. The codec's forward likewise, from its activations and its multiplications. Real kernels reach a part
of the sheets' figures: BANDWIDTH_SHARE and COMPUTE_SHARE are assumptions, and so are the fixed times for launching and around a window. The
host's processors are taken to be idle.
"""

from __future__ import annotations

from dataclasses import dataclass

from snac_codec.tiles import tile_reach

from simulation.costs import Costs, Curve

BANDWIDTH_SHARE = 0.6
COMPUTE_SHARE = 0.4
STEP_LAUNCH_S = 1e-3
FORWARD_LAUNCH_S = 1e-3
WINDOW_DELAY_S = 3e-3

# Llama 3.2 3B's shapes with Orpheus's vocabulary (perf/language_model.py has the sources).
LAYERS, WIDTH, KEYS, HIDDEN, VOCABULARY = 28, 3072, 1024, 8192, 156_940
LAYER_WEIGHTS = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * KEYS + 3 * WIDTH * HIDDEN)
HEAD_WEIGHTS = VOCABULARY * WIDTH
WEIGHT_BYTES = LAYER_WEIGHTS + 2 * HEAD_WEIGHTS  # FP8, the head in bfloat16
CACHE_BYTES_PER_TOKEN = 2 * LAYERS * KEYS  # FP8
MEAN_CONTEXT_TOKENS = 400
"""A prompt and half of seven seconds at 82 tokens a second."""

# SNAC 24 kHz (hubertsiuzdak/snac_24khz, config.json): width of the decoder's input and its upsampling rates.
SNAC_LATENT, SNAC_WIDTH, SNAC_RATES = 768, 1024, (8, 8, 4, 2)
ACTIVATIONS_PER_VALUE = 40
"""Reads and writes of each value of a block's output, for about 20 operations, if nothing is fused."""
TILE_LATENTS = (2, 4, 8, 16, 32)
ROWS = 32


@dataclass(frozen=True)
class Gpu:
    """Dense rates. source: of the figures."""

    name: str
    bytes_per_s: float
    fp8_flops: float
    half_flops: float
    source: str


GPUS = (
    Gpu("L4", 0.300e12, 242e12, 121e12, "NVIDIA L4 data sheet, half of the figures with sparsity"),
    Gpu("L40S", 0.864e12, 733e12, 362e12, "NVIDIA L40S data sheet"),
    Gpu("H100 SXM", 3.35e12, 1979e12, 989e12, "NVIDIA H100 data sheet, half of the figures with sparsity"),
    Gpu("H200", 4.8e12, 1979e12, 989e12, "NVIDIA H200 data sheet, half of the figures with sparsity"),
)


def paper_costs(gpu: Gpu) -> Costs:
    """One GPU that language model and codec share."""
    return Costs(
        step_s=Curve([(n, step_s(gpu, n)) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)]),
        step_threads=1,
        prompt_token_s=2 * LAYER_WEIGHTS / (COMPUTE_SHARE * gpu.fp8_flops),
        forward_s={size: Curve([(rows, forward_s(gpu, size, rows)) for rows in (1, ROWS)]) for size in TILE_LATENTS},
        max_rows=ROWS,
        calls=1,
        window_core_s=0.0,
        window_delay_s=WINDOW_DELAY_S,
        cores=1,
    )


def step_s(gpu: Gpu, streams: int) -> float:
    read = WEIGHT_BYTES + streams * MEAN_CONTEXT_TOKENS * CACHE_BYTES_PER_TOKEN
    flops = 2 * streams * (LAYER_WEIGHTS / gpu.fp8_flops + HEAD_WEIGHTS / gpu.half_flops)
    return STEP_LAUNCH_S + max(read / (BANDWIDTH_SHARE * gpu.bytes_per_s), flops / COMPUTE_SHARE)


def forward_s(gpu: Gpu, latents: int, rows: int) -> float:
    """Of `rows` tiles with their context."""
    decoded = rows * (latents + 2 * tile_reach(SNAC_RATES))
    multiplications, values = snac_per_latent()
    moved = 2 * ACTIVATIONS_PER_VALUE * values * decoded
    return FORWARD_LAUNCH_S + max(
        moved / (BANDWIDTH_SHARE * gpu.bytes_per_s), 2 * multiplications * decoded / (COMPUTE_SHARE * gpu.half_flops)
    )


def snac_per_latent() -> tuple[int, int]:
    """-> multiplications, and values of all blocks' outputs, for a latent (snac/layers.py: Decoder, depthwise, with noise)."""
    width, rate = SNAC_WIDTH, 1
    multiplications, values = SNAC_LATENT * (7 + SNAC_WIDTH), SNAC_WIDTH
    for stride in SNAC_RATES:
        multiplications += rate * width * (width // 2) * 2 * stride
        width, rate = width // 2, rate * stride
        multiplications += rate * width * (width + 3 * (7 + width))  # noise, then three residual units
        values += rate * width
    return multiplications + 7 * rate * width, values
