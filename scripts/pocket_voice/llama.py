"""A small Llama under Hugging Face's parameter names, with one head whose attention can be looked at in training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pocket_voice.prompt import BEGIN, END_OF_SPEECH, PAD, vocabulary_size

NORM_EPS, ROPE_THETA = 1e-5, 10000.0


@dataclass(frozen=True)
class LlamaSettings:
    width: int = 256
    layers: int = 6
    heads: int = 4
    hidden: int = 704
    codebook_size: int = 512
    guided_layer: int = 2

    @property
    def vocabulary(self) -> int:
        return vocabulary_size(self.codebook_size)

    def huggingface(self) -> dict[str, Any]:
        """The `config.json` of transformers' LlamaForCausalLM."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": self.width, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.heads, "head_dim": self.width // self.heads,
            "intermediate_size": self.hidden, "vocab_size": self.vocabulary, "max_position_embeddings": 4096, "rms_norm_eps": NORM_EPS,
            "rope_theta": ROPE_THETA, "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
            "bos_token_id": BEGIN, "eos_token_id": END_OF_SPEECH, "pad_token_id": PAD, "torch_dtype": "float32",
        }  # fmt: skip


def rotary(length: int, head_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """-> cos and sin float32 [length, head_size]."""
    angle = torch.arange(length)[:, None] * ROPE_THETA ** (-torch.arange(0, head_size, 2) / head_size)
    return torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.q_proj = nn.Linear(settings.width, settings.width, bias=False)
        self.k_proj = nn.Linear(settings.width, settings.width, bias=False)
        self.v_proj = nn.Linear(settings.width, settings.width, bias=False)
        self.o_proj = nn.Linear(settings.width, settings.width, bias=False)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, time, width] -> [batch, heads, time, head_size]"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, text_length: int | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Where `text_length` is given, also head 0's log-attention of later positions to the first `text_length` ones."""
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        guide = None
        if text_length is not None:
            scores = q[:, 0, text_length:] @ k[:, 0].transpose(1, 2) / math.sqrt(q.shape[-1])
            past = torch.ones(scores.shape[1:], dtype=torch.bool).tril(text_length)
            guide = scores.masked_fill(~past, -1e9).log_softmax(-1)[..., :text_length]
        return self.o_proj(y.transpose(1, 2).flatten(2)), guide


class MLP(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(settings.width, settings.hidden, bias=False)
        self.up_proj = nn.Linear(settings.width, settings.hidden, bias=False)
        self.down_proj = nn.Linear(settings.hidden, settings.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(settings.width, eps=NORM_EPS)
        self.self_attn = Attention(settings)
        self.post_attention_layernorm = nn.RMSNorm(settings.width, eps=NORM_EPS)
        self.mlp = MLP(settings)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, text_length: int | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        y, guide = self.self_attn(self.input_layernorm(x), cos, sin, text_length)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), guide


class Backbone(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(settings.vocabulary, settings.width)
        self.layers = nn.ModuleList(Layer(settings) for _ in range(settings.layers))
        self.norm = nn.RMSNorm(settings.width, eps=NORM_EPS)


class Llama(nn.Module):
    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__()
        self.settings, self.model = settings, Backbone(settings)
        self.lm_head = nn.Linear(settings.width, settings.vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02 if "layers" not in name else parameter.shape[1] ** -0.5)

    def layer_matrices(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if p.ndim == 2 and "layers" in name]

    def other_parameters(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if not (p.ndim == 2 and "layers" in name)]

    def forward(self, ids: torch.Tensor, text_length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """ids int64 [batch, time], text padded on the left to `text_length`.

        -> hidden [batch, time - text_length + 1, width] of the positions that predict audio, and the guided head's log-attention
        [batch, the same, text_length - 1].
        """
        cos, sin = rotary(ids.shape[1], self.settings.width // self.settings.heads)
        x, guide = self.model.embed_tokens(ids), None
        for i, layer in enumerate(self.model.layers):
            x, seen = layer(x, cos, sin, text_length - 1 if i == self.settings.guided_layer else None)
            guide = seen if seen is not None else guide
        assert guide is not None
        return self.model.norm(x[:, text_length - 1 :]), guide
