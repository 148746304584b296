"""Codebooks that use all their codes: a start from k-means, and restarts of codes that nothing chooses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from snac import SNAC

from pocket_voice.codec import Quantized, levels_of, pooled


@torch.no_grad()
def start_from_kmeans(model: SNAC, latents: torch.Tensor, rounds: int = 15) -> None:
    """Set projections and codebooks of all levels from real latents float32 [batch, latent_dim, n], level by level.

    The projections start as the principal directions: a good linear code. Then spherical k-means, as SNAC compares directions.
    """
    residual = latents
    for level in levels_of(model):
        slow = pooled(level, residual)
        points = slow.transpose(1, 2).reshape(-1, slow.shape[1])
        mean = points.mean(0)
        _, _, basis = torch.pca_lowrank(points - mean, q=level.codebook.embedding_dim, niter=4)
        scale = ((points - mean) @ basis).std(0).mean()
        _set_projection(level.in_proj, basis.t() / scale, -(basis.t() @ mean) / scale)
        _set_projection(level.out_proj, basis * scale, mean)
        data = level.in_proj(slow).transpose(1, 2).reshape(-1, level.codebook.embedding_dim)
        level.codebook.weight.copy_(_kmeans(data, level.codebook.num_embeddings, rounds))
        out, _ = level(residual)
        residual = residual - out


def _set_projection(projection: torch.nn.Conv1d, weight: torch.Tensor, bias: torch.Tensor) -> None:
    # The projections are weight-normalised: assigning to `weight` sets both of the underlying parameters.
    setattr(projection, "weight", weight[:, :, None])  # noqa: B010
    projection.get_parameter("bias").copy_(bias)


def _kmeans(data: torch.Tensor, count: int, rounds: int) -> torch.Tensor:
    """data float32 [n, dim] -> centres float32 [count, dim], compared by direction."""
    centres = data[torch.randperm(len(data))[:count]].clone()
    for _ in range(rounds):
        nearest = (F.normalize(data) @ F.normalize(centres).t()).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, data)
        sizes = torch.bincount(nearest, minlength=count).unsqueeze(1)
        strays = data[torch.randint(len(data), (count,))]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), strays)
    return centres


class DeadCodes:
    """Moves a code that no segment chose for `patience` looks onto a present encoding."""

    def __init__(self, model: SNAC, patience: int = 100) -> None:
        self._levels, self._patience = levels_of(model), patience
        self._idle = [torch.zeros(model.codebook_size) for _ in self._levels]

    @torch.no_grad()
    def look(self, seen: Quantized) -> None:
        for idle, level, encoded, codes in zip(self._idle, self._levels, seen.encoded, seen.codes, strict=True):
            idle += 1
            idle[codes.reshape(-1)] = 0
            dead = (idle > self._patience).nonzero().reshape(-1)
            if len(dead):
                points = encoded.transpose(1, 2).reshape(-1, encoded.shape[1])
                level.codebook.weight[dead] = points[torch.randint(len(points), (len(dead),))]
                idle[dead] = 0

    def alive(self) -> list[int]:
        """Codes of each level that were chosen within the last `patience` looks."""
        return [int((idle < self._patience).sum()) for idle in self._idle]
