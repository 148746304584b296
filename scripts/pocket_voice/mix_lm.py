"""The mean of two language models of one run, with its held-out loss beside theirs: it does what more steps at a falling rate would do.

    python -m pocket_voice.mix_lm work/lm-before work/lm --share 0.65 --codes work/codes --out work/lm-mixed

Works where the second was trained on from the first (`train_lm --start`); the first shard of --codes is held out, as in training.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from pocket_voice.llama import Llama, LlamaSettings
from pocket_voice.rows import Row, collate, grouped, load_rows
from pocket_voice.segments import shard_paths
from pocket_voice.train_lm import losses

HELD_OUT_BATCHES, TOKENS = 12, 3500
COPIED = ("config.json", "characters.json")


def settings_of(folder: Path) -> LlamaSettings:
    """Of a checkpoint that train_lm wrote."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes = (config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"], config["intermediate_size"])
    settings = LlamaSettings(*sizes)
    if settings.vocabulary != config["vocab_size"]:
        raise ValueError(f"vocabulary of {config['vocab_size']} in {folder}, {settings.vocabulary} expected")
    return settings


@torch.no_grad()
def held_out_loss(model: Llama, weights: dict[str, torch.Tensor], rows: list[Row]) -> float:
    model.load_state_dict(weights)
    groups = itertools.islice(grouped(rows, TOKENS, np.random.default_rng(0)), HELD_OUT_BATCHES)
    return torch.cat([losses(model, collate(group)).each for group in groups]).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--codes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    settings = settings_of(args.first)
    table = json.loads((args.first / "characters.json").read_text(encoding="utf-8"))
    rows = load_rows(shard_paths(args.codes)[:1], table, settings.codebook_size)
    ends = load_file(args.first / "model.safetensors"), load_file(args.second / "model.safetensors")
    mixed = {name: torch.lerp(first, ends[1][name], args.share) for name, first in ends[0].items()}
    model = Llama(settings)
    for name, weights in (("first", ends[0]), ("mixed", mixed), ("second", ends[1])):
        print(f"{name}: held-out loss {held_out_loss(model, weights, rows):.4f}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    save_file(mixed, args.out / "model.safetensors", {"format": "pt"})
    for name in COPIED:
        shutil.copyfile(args.first / name, args.out / name)


if __name__ == "__main__":
    main()
