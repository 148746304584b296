"""What a language model of Orpheus 3B's size costs on processors, from random weights: to convert, to keep and to run.

    PYTHONPATH=scripts:model_repository/orpheus_lm/1 .venv/bin/python perf/language_model.py FOLDER --out perf/results/language_model.json

FOLDER gets a checkpoint in bfloat16 (6.6 GB) and one model of each precision, all kept; what is there already is used again. The speed of a
dense model does not depend on what its weights say. Streams of one kind start together; their rate is taken from each one's first token on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from speech_lm.engines import EngineOptions, Sampling
from speech_lm.engines.openvino import OpenVinoEngine

EXPORT = Path(__file__).resolve().parents[1] / "scripts/export_lm.py"

# meta-llama/Llama-3.2-3B's config.json with Orpheus's vocabulary (unsloth/orpheus-3b-0.1-ft, config.json).
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "vocab_size": 156940, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False,
    "mlp_bias": False, "bos_token_id": 128000, "eos_token_id": 128009,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    },
}  # fmt: skip
PROMPT_TOKENS = 32
"""Of a sentence of some hundred characters with its control ids."""
VOCABULARY, SMALL_VOCABULARY = 128_000, 256
"""Ids of prompts: of Llama's text, and below the audio of the embedded voice."""


def shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, hidden, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    yield "model.norm.weight", (width,)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in {
            "input_layernorm": (width,), "post_attention_layernorm": (width,), "self_attn.q_proj": (queries, width),
            "self_attn.k_proj": (keys, width), "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, queries),
            "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width), "mlp.down_proj": (width, hidden),
        }.items():  # fmt: skip
            yield f"model.layers.{layer}.{name}.weight", shape


def write_checkpoint(folder: Path) -> None:
    """One random sequence over and over, in bfloat16 (the upper half of a float32), so that no two tensors are alike: the exporter would
    store equal ones once. Norms of ones."""
    folder.mkdir(parents=True, exist_ok=True)
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes(CONFIG):
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    noise = as_bfloat16(np.random.default_rng(0).standard_normal((1 << 24) + 1, np.float32) * np.float32(0.02))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        place = 0
        for _, shape in shapes(CONFIG):
            left = int(np.prod(shape))
            if len(shape) == 1:
                file.write(as_bfloat16(np.ones(shape, np.float32)).tobytes())
                continue
            while left:
                piece = noise[place : place + left]
                file.write(piece.tobytes())
                left, place = left - len(piece), (place + len(piece)) % len(noise)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def as_bfloat16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def convert(checkpoint: Path, out: Path, precision: str) -> dict[str, float]:
    """As a user does it, in a process of its own."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, str(EXPORT), str(checkpoint), str(out), "--precision", precision])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"export_lm.py failed with status {status}")
    return {"convert_s": round(time.monotonic() - began, 1), "convert_peak_gb": round(usage.ru_maxrss / 1e6, 2)}


async def run(folder: Path, streams: tuple[int, ...], tokens: int) -> dict[str, Any]:
    engine = OpenVinoEngine(folder, EngineOptions(threads=0, max_streams=max(streams)))
    began = time.monotonic()
    await engine.start()
    found: dict[str, Any] = {"load_s": round(time.monotonic() - began, 1), "runs": []}
    try:
        await together(engine, 1, 8)
        for n in streams:
            times = await together(engine, n, tokens)
            rates = [(len(t) - 1) / (t[-1] - t[0]) for t in times]
            firsts = [t[0] for t in times]
            found["runs"].append(
                {
                    "streams": n,
                    "tokens_per_s_each": round(float(np.mean(rates)), 2),
                    "tokens_per_s_all": round(sum(rates), 2),
                    "first_token_s": round(max(firsts), 2),
                }
            )
            print(folder.name, found["runs"][-1], flush=True)
        found["peak_memory_gb"] = peak_gb(engine.worker_pid)
    finally:
        await engine.close()
    return found


async def together(
    engine: OpenVinoEngine, n: int, tokens: int, prompt_tokens: int = PROMPT_TOKENS, vocabulary: int = VOCABULARY
) -> list[list[float]]:
    """Seconds from the submission to every token, per stream. Orpheus's own sampling, and an end by length alone."""
    rng = np.random.default_rng(n)
    sampling = Sampling(0.6, 0.9, 0, 1.1, seed=0, max_tokens=tokens, stop_ids=frozenset())

    async def one() -> list[float]:
        began, times = time.monotonic(), list[float]()
        async for ids in engine.submit([int(i) for i in rng.integers(0, vocabulary, prompt_tokens)], sampling):
            times += [time.monotonic() - began] * len(ids)
        return times

    return await asyncio.gather(*(one() for _ in range(n)))


def peak_gb(pid: int | None) -> float:
    """Resident memory at its highest, mapped files included."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1e6, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--precisions", nargs="+", default=["int8", "int4"])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tokens", type=int, default=48, help="per stream (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    args = parser.parse_args()
    checkpoint = args.folder / "checkpoint"
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint)
    results: list[dict[str, Any]] = []
    for precision in args.precisions:
        model = args.folder / precision
        made = {} if (model / "config.json").exists() else convert(checkpoint, model, precision)
        size = sum(file.stat().st_size for file in model.iterdir())
        found = asyncio.run(run(model, tuple(args.streams), args.tokens))
        results.append({"precision": precision, "size_gb": round(size / 1e9, 2), **made, **found})
        print(results[-1], flush=True)
    if args.out:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        args.out.write_text(json.dumps({"machine": machine, "tokens": args.tokens, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
