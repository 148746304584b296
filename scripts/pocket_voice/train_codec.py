"""Train the pocket codec; stop and start at will.

    python -m pocket_voice.train_codec --speech work/speech --out work/codec --minutes 120

Phases: an autoencoder without quantizer (--free-steps), codebooks from k-means of its latents, then the whole codec; from
--adversarial-share of the budget on also against a small discriminator. `--freeze-codes` trains the decoder alone, so that the codes of a
language model stay valid.
Each line of the log is a JSON object. `--out` holds `state.pt` to go on from, and the result so far: `snac/` and `encoder.safetensors`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from snac import SNAC

from pocket_voice.budget import Budget, RateShape
from pocket_voice.codebooks import DeadCodes, start_from_kmeans
from pocket_voice.codec import Quantized, prepare_for_compile, quantize, save_codec, snac_config
from pocket_voice.features import FeatureEncoder
from pocket_voice.losses import Discriminator, EnvelopeLoss, SpectralLoss, fooling_loss, judge_loss, matching_loss
from pocket_voice.segments import MARGIN, MARGIN_LATENTS, Segments

COMMITMENT_WEIGHT, FOOLING_WEIGHT, MATCHING_WEIGHT = 0.25, 0.05, 0.2
ADVERSARIAL_RAMP_STEPS = 600
LOG_EVERY, SAVE_EVERY, RESTART_EVERY = 100, 500, 10


@dataclass
class Progress:
    step: int = 0
    adversarial_from: int | None = None


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.state_path: Path = args.out / "state.pt"
        state: dict[str, Any] | None = torch.load(self.state_path, weights_only=True) if self.state_path.exists() else None
        self.progress = Progress(**state["progress"]) if state else Progress()
        self.budget = Budget(args.minutes, state["used_s"] if state else 0.0)
        torch.manual_seed(self.progress.step + 1)
        self.model = SNAC(**snac_config(args.decoder_dim, args.codebook))
        self.encoder, self.judge = FeatureEncoder(self.model.latent_dim), Discriminator()
        self.taught = [*self.model.decoder.parameters()]
        if not args.freeze_codes:
            self.taught += [*self.encoder.parameters(), *self.model.quantizer.parameters()]
        self.optimizer = torch.optim.AdamW(self.taught, args.rate, betas=(0.8, 0.98), weight_decay=0.01)
        self.judge_optimizer = torch.optim.AdamW(self.judge.parameters(), 3e-4, betas=(0.8, 0.98))
        if state:
            for name, part in self.parts().items():
                part.load_state_dict(state[name])
        elif args.start:
            self.model.load_state_dict(torch.load(args.start / "snac" / "pytorch_model.bin", weights_only=True))
            self.encoder.load_state_dict(load_file(args.start / "encoder.safetensors"))
            self.progress.step = args.free_steps + 1  # the codebooks are there
        self.first_step = self.progress.step
        self.segments = Segments(args.speech, args.frames, seed=self.first_step)
        self.spectral, self.envelope, self.dead_codes = SpectralLoss(), EnvelopeLoss(), DeadCodes(self.model)
        self.decode = self.model.decoder if args.eager else torch.compile(prepare_for_compile(self.model.decoder))

    def parts(self) -> dict[str, Any]:
        return {
            "model": self.model, "encoder": self.encoder, "optimizer": self.optimizer,
            "judge": self.judge, "judge_optimizer": self.judge_optimizer,
        }  # fmt: skip

    def save(self) -> None:
        self.args.out.mkdir(parents=True, exist_ok=True)
        states = {name: part.state_dict() for name, part in self.parts().items()}
        temporary = self.state_path.with_suffix(".part")
        torch.save({"progress": vars(self.progress), "used_s": self.budget.used_s, **states}, temporary)
        temporary.replace(self.state_path)
        save_codec(self.args.out, self.model, self.encoder)

    def latents(self) -> tuple[torch.Tensor, torch.Tensor]:
        """-> real audio float32 [batch, samples] of a new batch, its latents [batch, latent_dim, n]."""
        audio, f0_hz = self.segments.batch(self.args.batch)
        with torch.set_grad_enabled(not self.args.freeze_codes):
            latents = self.encoder(audio, f0_hz)[..., MARGIN_LATENTS:-MARGIN_LATENTS]
        return audio[:, MARGIN:-MARGIN], latents

    def narrow(self) -> torch.autocast:
        """bfloat16 for the discriminator's layers: a third less of its time on a processor with bfloat16 products."""
        return torch.autocast("cpu", torch.bfloat16, enabled=not self.args.float32)

    def coded(self, latents: torch.Tensor) -> Quantized | None:
        if self.progress.step < self.args.free_steps:
            return None
        if self.progress.step == self.args.free_steps:
            with torch.no_grad():
                start_from_kmeans(self.model, torch.cat([self.latents()[1] for _ in range(240)]))
        with torch.set_grad_enabled(not self.args.freeze_codes):
            return quantize(self.model, latents)

    def adversarial(self, real: torch.Tensor, made: torch.Tensor, began: int) -> tuple[torch.Tensor, dict[str, float]]:
        """One step of the discriminator -> the generator's loss from it."""
        with self.narrow():
            on_real, on_made = self.judge(real), self.judge(made.detach())
        loss = judge_loss(on_real, on_made)
        self.judge_optimizer.zero_grad()
        loss.backward()
        self.judge_optimizer.step()
        self.judge.requires_grad_(False)
        with self.narrow():
            on_made = self.judge(made)
        self.judge.requires_grad_(True)
        fooling, matching = fooling_loss(on_made), matching_loss(on_real, on_made)
        ramp = min(1.0, (self.progress.step - began) / ADVERSARIAL_RAMP_STEPS)
        shown = {"judge": loss.item(), "fooling": fooling.item(), "matching": matching.item()}
        return ramp * (FOOLING_WEIGHT * fooling + MATCHING_WEIGHT * matching), shown

    def step(self, rate: float) -> dict[str, float]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        real, latents = self.latents()
        seen = self.coded(latents)
        made = self.decode(seen.latents if seen else latents)[:, 0]
        spectral = self.spectral(made, real)
        envelope = self.envelope(made, real)
        loss, shown = spectral + self.args.envelope_weight * envelope, {"spectral": spectral.item(), "envelope": envelope.item()}
        if seen and not self.args.freeze_codes:
            loss = loss + COMMITMENT_WEIGHT * seen.loss
            shown["commitment"] = seen.loss.item()
        began = self.progress.adversarial_from
        if began is not None:
            extra, more = self.adversarial(real, made, began)
            loss, shown = loss + extra, shown | more
        self.optimizer.zero_grad()
        loss.backward()
        shown["norm"] = torch.nn.utils.clip_grad_norm_(self.taught, 1.0).item()
        self.optimizer.step()
        if seen and not self.args.freeze_codes and self.progress.step % RESTART_EVERY == 0:
            self.dead_codes.look(seen)
        return shown

    def run(self) -> None:
        shape = RateShape(warmup_steps=200, decay_share=self.args.decay_share)
        log: list[dict[str, float]] = []
        while self.budget.share < 1:
            if self.progress.adversarial_from is None and self.budget.share >= self.args.adversarial_share:
                self.progress.adversarial_from = self.progress.step
                log.clear()
            scale = shape.scale(self.progress.step - self.first_step, self.budget.share)
            log.append(self.step(self.args.rate * scale))
            self.progress.step += 1
            self.budget.tick()
            if self.progress.step % LOG_EVERY == 0:
                means = {name: round(float(np.mean([line[name] for line in log])), 4) for name in log[-1]}
                line = {"step": self.progress.step, "share": round(self.budget.share, 3), "scale": round(scale, 3), **means}
                line |= {} if self.args.freeze_codes else {"alive": self.dead_codes.alive()}
                print(json.dumps(line), flush=True)
                log.clear()
            if self.progress.step % SAVE_EVERY == 0:
                self.save()
        self.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="folder with snac/ and encoder.safetensors to go on from, where --out holds no state")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--frames", type=int, default=9, help="of each segment")
    parser.add_argument("--decoder-dim", type=int, default=256)
    parser.add_argument("--codebook", type=int, default=512)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--decay-share", type=float, default=0.4, help="share of the budget over which the rate falls to nothing")
    parser.add_argument("--free-steps", type=int, default=1500, help="steps without the quantizer")
    parser.add_argument(
        "--adversarial-share", type=float, default=0.5, help="share of the budget before the discriminator joins; 1 = never"
    )
    parser.add_argument("--envelope-weight", type=float, default=1.0, help="of the distance of cepstra (losses.EnvelopeLoss)")
    parser.add_argument("--freeze-codes", action="store_true", help="train the decoder alone")
    parser.add_argument("--float32", action="store_true", help="no bfloat16 in the discriminator, for processors without it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # three times faster: the small net meets many denormals
    Trainer(args).run()


if __name__ == "__main__":
    main()
