"""Train the pocket voice's language model: phoneme characters in, codec codes out; stop and start at will.

    python -m pocket_voice.train_lm --codes work/codes --out work/lm --minutes 120

A small Llama, saved in Hugging Face's layout (`config.json`, `model.safetensors`) with `characters.json`. One head of a middle layer is
also taught, from the teacher's durations, to look at the phoneme that sounds next: reading in order is what takes a small model longest to
find by itself, and at run time nothing but a plain Llama is left. Each line of the log is a JSON object; the first shard is held out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from pocket_voice.budget import Budget, RateShape
from pocket_voice.layout import SLOTS
from pocket_voice.llama import Llama, LlamaSettings
from pocket_voice.muon import Muon
from pocket_voice.prompt import AUDIO_BASE, character_table
from pocket_voice.rows import Batch, Row, collate, grouped, load_rows
from pocket_voice.segments import shard_paths

ADAM_SHARE = 1 / 8  # of Muon's rate
LOG_EVERY, CHECK_EVERY, CHECK_BATCHES = 50, 200, 6


class Losses(NamedTuple):
    each: torch.Tensor  # float32 [n]: cross-entropy of every asked position
    wanted: torch.Tensor  # int64 [n]
    guide: torch.Tensor  # scalar: how far the guided head looks from the phoneme that sounds


def losses(model: Llama, batch: Batch) -> Losses:
    hidden, attention = model(batch.ids, batch.text_length)
    asked = batch.targets >= 0
    wanted = batch.targets[asked]
    each = F.cross_entropy(model.lm_head(hidden[asked]), wanted, reduction="none")
    sounding = batch.spoken >= 0
    guide = -attention[sounding].gather(1, batch.spoken[sounding][:, None]).mean()
    return Losses(each, wanted, guide)


def load_table(args: argparse.Namespace, paths: list[Path]) -> dict[str, int]:
    """The ids of the run that is gone on from, else of all characters in the rows."""
    for folder in (args.out, args.start):
        if folder and (folder / "characters.json").exists():
            return json.loads((folder / "characters.json").read_text(encoding="utf-8"))
    return character_table(str(text) for path in paths for text in np.load(path)["phonemes"])


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.state_path: Path = args.out / "state.pt"
        state: dict[str, Any] | None = torch.load(self.state_path, weights_only=True) if self.state_path.exists() else None
        self.first_step = self.step = state["step"] if state else 0
        self.budget = Budget(args.minutes, state["used_s"] if state else 0.0)
        torch.manual_seed(1 + self.step)
        paths = shard_paths(args.codes)
        self.table = load_table(args, paths)
        self.settings = LlamaSettings(args.width, args.layers, args.width // 64, args.width * 11 // 4, args.codebook)
        self.model = Llama(self.settings)
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = [
            (Muon(self.model.layer_matrices(), args.rate), args.rate),
            (
                torch.optim.AdamW(self.model.other_parameters(), args.rate * ADAM_SHARE, (0.9, 0.98), weight_decay=0.0),
                args.rate * ADAM_SHARE,
            ),
        ]
        if state:
            self.model.load_state_dict(state["model"])
            for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        elif args.start:
            self.model.load_state_dict(load_file(args.start / "model.safetensors"))
        self.rows = load_rows(paths[1:], self.table, args.codebook)
        self.held_out = load_rows(paths[:1], self.table, args.codebook)
        self.losses = losses if args.eager else torch.compile(losses, dynamic=True)

    def save(self) -> None:
        out: Path = self.args.out
        out.mkdir(parents=True, exist_ok=True)
        state = {"step": self.step, "used_s": self.budget.used_s, "model": self.model.state_dict()}
        state["optimizers"] = [optimizer.state_dict() for optimizer, _ in self.optimizers]
        temporary = self.state_path.with_suffix(".part")
        torch.save(state, temporary)
        temporary.replace(self.state_path)
        save_file(self.model.state_dict(), out / "model.safetensors", {"format": "pt"})
        (out / "config.json").write_text(json.dumps(self.settings.huggingface(), indent=2) + "\n", encoding="utf-8")
        (out / "characters.json").write_text(json.dumps(self.table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

    @torch.no_grad()
    def check(self) -> dict[str, Any]:
        """Loss on the same held-out batches each time, in float32, in all and for each slot."""
        batches = itertools.islice(grouped(self.held_out, self.args.tokens, np.random.default_rng(0)), CHECK_BATCHES)
        seen = [losses(self.model, collate(group)) for group in batches]
        each, wanted = torch.cat([s.each for s in seen]), torch.cat([s.wanted for s in seen])
        slots = (wanted - AUDIO_BASE).div(self.args.codebook, rounding_mode="floor")
        by_slot = [round(each[slots == slot].mean().item(), 2) for slot in range(SLOTS)]
        guide = torch.stack([s.guide for s in seen]).mean().item()
        return {"held_out": round(each.mean().item(), 3), "held_out_guide": round(guide, 3), "slots": by_slot}

    def learn(self, group: list[Row], scale: float) -> Losses:
        for optimizer, peak in self.optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = peak * scale
        with torch.autocast("cpu", torch.bfloat16, enabled=not self.args.float32):
            found = self.losses(self.model, collate(group))
            loss = found.each.mean() + self.args.guide * found.guide
        self.model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.other_parameters(), 1.0)
        for optimizer, _ in self.optimizers:
            optimizer.step()
        return found

    def run(self) -> None:
        print(f"{sum(p.numel() for p in self.model.parameters()) / 1e6:.2f} M parameters, {len(self.rows)} rows", flush=True)
        shape = RateShape(warmup_steps=150, decay_share=self.args.decay_share)
        groups = grouped(self.rows, self.args.tokens, np.random.default_rng(self.step))
        log: list[tuple[float, float, int]] = []
        logged = time.monotonic()
        while self.budget.share < 1:
            scale = shape.scale(self.step - self.first_step, self.budget.share)
            found = self.learn(next(groups), scale)
            log.append((found.each.mean().item(), found.guide.item(), len(found.each)))
            self.step += 1
            self.budget.tick()
            if self.step % LOG_EVERY == 0:
                loss, guide, codes = np.mean(log, 0)
                rate = round(codes * len(log) / (time.monotonic() - logged))
                line = {"step": self.step, "share": round(self.budget.share, 3), "scale": round(scale, 3), "codes_per_s": rate}
                line |= {"loss": round(float(loss), 3), "guide": round(float(guide), 3)}
                print(json.dumps(line | (self.check() if self.step % CHECK_EVERY == 0 else {})), flush=True)
                log.clear()
                logged = time.monotonic()
            if self.step % CHECK_EVERY == 0:
                self.save()
        self.save()
        print(json.dumps(self.check()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="folder with model.safetensors to go on from, where --out holds no state")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--tokens", type=int, default=3500, help="per step, padding included; more fall out of the cache")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--codebook", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.02, help="of Muon; AdamW's is an eighth of it")
    parser.add_argument("--guide", type=float, default=0.3, help="weight of the guided head's loss")
    parser.add_argument("--decay-share", type=float, default=0.5, help="share of the budget over which the rate falls to nothing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--float32", action="store_true", help="no bfloat16: it is slower on processors without avx512_bf16 or amx")
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    Trainer(args).run()


if __name__ == "__main__":
    main()
