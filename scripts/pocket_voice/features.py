"""Log-mel and pitch in, latents out: the encoder that replaces SNAC's waveform encoder in training. Not part of the product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from pocket_voice.layout import SAMPLE_RATE_HZ

MEL_BINS = 80
FFT_SIZE, FFT_STEP = 1024, 256
MIN_F0_HZ = 50.0
ROWS = MEL_BINS + 2  # mel bins, log2 of the pitch, voiced or not


def hz_to_mel(hz: torch.Tensor) -> torch.Tensor:
    """The HTK mel scale (Young et al., The HTK Book)."""
    return 2595 * torch.log10(1 + hz / 700)


def mel_to_hz(mel: torch.Tensor) -> torch.Tensor:
    return 700 * (10 ** (mel / 2595) - 1)


def mel_filters(fft_size: int, bins: int, lowest_hz: float = 0, highest_hz: float = SAMPLE_RATE_HZ / 2) -> torch.Tensor:
    """Triangular filters, evenly spaced in mel, float32 [bins, fft_size // 2 + 1]."""
    lowest, highest = hz_to_mel(torch.tensor([lowest_hz, highest_hz])).tolist()
    edges = mel_to_hz(torch.linspace(lowest, highest, bins + 2))
    hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, fft_size // 2 + 1)
    rising = (hz[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - hz[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rising, falling).clamp(min=0)


class Features(nn.Module):
    """audio float32 [batch, n * 512] and f0_hz float32 [batch, n * 2] -> features [batch, 164, n], one column for each latent."""

    window: torch.Tensor
    mel: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FFT_SIZE), persistent=False)
        self.register_buffer("mel", mel_filters(FFT_SIZE, MEL_BINS), persistent=False)

    def forward(self, audio: torch.Tensor, f0_hz: torch.Tensor) -> torch.Tensor:
        # Column i is centred on sample 256 i + 128, so that two columns lie evenly inside a latent's 512 samples.
        before = (FFT_SIZE - FFT_STEP) // 2
        padded = F.pad(audio, (before, before + FFT_STEP))
        magnitude = torch.stft(padded, FFT_SIZE, FFT_STEP, window=self.window, center=False, return_complex=True).abs()
        # Divided and shifted to about unit range: log-mel of speech lies between -7 and 4.
        log_mel = (self.mel @ magnitude[..., : f0_hz.shape[-1]]).clamp(min=1e-3).log() / 3 + 0.5
        voiced = (f0_hz > MIN_F0_HZ).float()
        pitch = torch.log2(f0_hz.clamp(min=MIN_F0_HZ) / 220) * voiced * 2
        rows = torch.cat([log_mel, pitch[:, None], voiced[:, None]], 1)
        batch, bins, columns = rows.shape
        return rows.reshape(batch, bins, columns // 2, 2).transpose(2, 3).reshape(batch, bins * 2, columns // 2)


class Block(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.mix = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation, groups=8)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.point(F.gelu(self.mix(self.norm(x))))


class FeatureEncoder(nn.Module):
    """audio [batch, n * 512], f0_hz [batch, n * 2] -> latents float32 [batch, latent_dim, n]."""

    def __init__(self, latent_dim: int, width: int = 256) -> None:
        super().__init__()
        self.features = Features()
        blocks = [Block(width, dilation) for dilation in (1, 2, 1, 2, 1)]
        self.net = nn.Sequential(nn.Conv1d(2 * ROWS, width, 3, padding=1), *blocks, nn.GELU(), nn.Conv1d(width, latent_dim, 1))

    def forward(self, audio: torch.Tensor, f0_hz: torch.Tensor) -> torch.Tensor:
        return self.net(self.features(audio, f0_hz))
