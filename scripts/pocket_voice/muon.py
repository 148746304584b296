"""Muon: momentum, orthogonalised by five Newton-Schulz steps (Keller Jordan, https://kellerjordan.github.io/posts/muon/)."""

from __future__ import annotations

from collections.abc import Iterable

import torch

# The quintic's coefficients as published: they push all singular values to about 1.
A, B, C = 3.4445, -4.7750, 2.0315
NEWTON_SCHULZ_STEPS = 5
WEIGHT_DECAY = 0.01


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """In bfloat16, as its author does: the directions need no more."""
    x = (matrix / (matrix.norm() + 1e-7)).bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = A * x + (B * gram + C * gram @ gram) @ x
    return (x.T if tall else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """For the matrices inside a transformer's layers; embeddings, heads and norms want AdamW."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonalised(p.grad.lerp(momentum, group["momentum"]))
                p.mul_(1 - WEIGHT_DECAY * group["lr"])
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)
