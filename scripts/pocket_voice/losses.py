"""What the codec's decoder is taught by: spectral distances, and later a discriminator of complex spectra."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from pocket_voice.features import mel_filters

# (FFT size, mel bins): short windows for attacks, long ones for harmonics.
RESOLUTIONS = ((2048, 160), (1024, 100), (512, 64), (256, 32), (128, 16))
LINEAR_SIZES = (512, 1024, 2048)
LINEAR_WEIGHT = 0.3


def _log_distance(both: torch.Tensor, floor: float) -> torch.Tensor:
    """L1 between the logarithms of the two halves of a batch."""
    made, real = both.clamp(min=floor).log().chunk(2)
    return F.l1_loss(made, real)


class SpectralLoss(nn.Module):
    """L1 of log-mel magnitudes, and in the longer windows of log-linear ones, at several resolutions; windows scaled to unit power."""

    def __init__(self) -> None:
        super().__init__()
        for size, bins in RESOLUTIONS:
            window = torch.hann_window(size)
            self.register_buffer(f"window{size}", window / window.square().sum().sqrt(), persistent=False)
            self.register_buffer(f"mel{size}", mel_filters(size, bins), persistent=False)

    def forward(self, made: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """made and real float32 [batch, samples] -> scalar."""
        total = made.new_zeros(())
        both = torch.cat([made, real])
        for size, _ in RESOLUTIONS:
            window, mel = self.get_buffer(f"window{size}"), self.get_buffer(f"mel{size}")
            spectrum = torch.stft(both, size, size // 4, window=window, return_complex=True)
            magnitude = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()
            total = total + _log_distance(mel @ magnitude, floor=3e-4)
            if size in LINEAR_SIZES:
                total = total + LINEAR_WEIGHT * _log_distance(magnitude, floor=1e-3)
        return total / len(RESOLUTIONS)


class EnvelopeLoss(nn.Module):
    """L1 of mel cepstra and of their first and second differences in time: the shape of the vocal tract without the harmonics.

    What recognisers have long been built on (Davis and Mermelstein 1980): 25 bands of 130 to 6,800 Hz, windows of 25.6 ms every 10 ms,
    the first 13 coefficients. Each coefficient counts in units of its own spread in the real speech of the batch.
    """

    BANDS, COEFFICIENTS, LOWEST_HZ, HIGHEST_HZ = 25, 13, 130.0, 6800.0
    WINDOW, FFT, STEP = 614, 1024, 240

    def __init__(self) -> None:
        super().__init__()
        band = torch.arange(self.BANDS) + 0.5
        cosines = torch.cos(torch.pi / self.BANDS * torch.arange(self.COEFFICIENTS)[:, None] * band)
        self.register_buffer("window", torch.hann_window(self.WINDOW), persistent=False)
        self.register_buffer("mel", mel_filters(self.FFT, self.BANDS, self.LOWEST_HZ, self.HIGHEST_HZ), persistent=False)
        self.register_buffer("cosines", cosines, persistent=False)

    def forward(self, made: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """made and real float32 [batch, samples] -> scalar."""
        spectrum = torch.stft(torch.cat([made, real]), self.FFT, self.STEP, self.WINDOW, self.get_buffer("window"), return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        cepstra = self.get_buffer("cosines") @ (self.get_buffer("mel") @ power).clamp(min=1e-4).log()
        first = cepstra[..., 4:] - cepstra[..., :-4]
        second = first[..., 2:] - first[..., :-2]
        return torch.stack([_distance_in_spreads(x) for x in (cepstra, first, second)]).mean()


def _distance_in_spreads(both: torch.Tensor) -> torch.Tensor:
    made, real = both.chunk(2)
    spread = real.std((0, 2), keepdim=True) + 1e-3
    return F.l1_loss(made / spread, real / spread)


class Judgement(NamedTuple):
    scores: list[torch.Tensor]  # one map of scores for each resolution
    features: list[torch.Tensor]  # every inner feature map


class Discriminator(nn.Module):
    """Small convolutional nets over complex spectra at three resolutions, after Encodec's MS-STFT discriminator (arXiv 2210.13438)."""

    SIZES = (1024, 512, 256)

    def __init__(self, width: int = 16) -> None:
        super().__init__()

        def conv(inputs: int, outputs: int, kernel: tuple[int, int], stride: int) -> nn.Module:
            padding = (kernel[0] // 2, kernel[1] // 2)
            return nn.utils.parametrizations.weight_norm(nn.Conv2d(inputs, outputs, kernel, (1, stride), padding))

        def net() -> nn.ModuleList:
            wide = [conv(2, width, (3, 9), 2), conv(width, width, (3, 9), 2), conv(width, width, (3, 9), 2)]
            return nn.ModuleList([*wide, conv(width, width, (3, 3), 1), conv(width, 1, (3, 3), 1)])

        self.nets = nn.ModuleList(net() for _ in self.SIZES)
        for size in self.SIZES:
            self.register_buffer(f"window{size}", torch.hann_window(size) / size**0.5, persistent=False)

    def forward(self, audio: torch.Tensor) -> Judgement:
        """audio float32 [batch, samples]."""
        scores: list[torch.Tensor] = []
        features: list[torch.Tensor] = []
        for size, net in zip(self.SIZES, self.nets, strict=True):
            assert isinstance(net, nn.ModuleList)
            spectrum = torch.stft(audio, size, size // 4, window=self.get_buffer(f"window{size}"), return_complex=True)
            x = torch.view_as_real(spectrum).permute(0, 3, 2, 1)
            *inner, last = net
            for layer in inner:
                x = F.leaky_relu(layer(x), 0.2)
                features.append(x)
            scores.append(last(x).float())
        return Judgement(scores, features)


def judge_loss(real: Judgement, made: Judgement) -> torch.Tensor:
    """Hinge loss of the discriminator."""
    terms = [F.relu(1 - r).mean() + F.relu(1 + m).mean() for r, m in zip(real.scores, made.scores, strict=True)]
    return torch.stack(terms).mean()


def fooling_loss(made: Judgement) -> torch.Tensor:
    return -torch.stack([score.mean() for score in made.scores]).mean()


def matching_loss(real: Judgement, made: Judgement) -> torch.Tensor:
    """Distance of the discriminator's inner features, relative to their size."""
    pairs = zip(real.features, made.features, strict=True)
    return torch.stack([F.l1_loss(m, r.detach()) / r.detach().abs().mean() for r, m in pairs]).mean()
