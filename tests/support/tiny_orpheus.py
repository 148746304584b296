"""A model in Orpheus's format that fits a test: its vocabulary, prompt, voices and tokenizer layout, a tiny Llama with made weights.

Its weights are not trained but made, so that sampling gives valid speech: every token says which slot of a frame comes next, codes are
random and depend on the prompt and on what was said, and speech ends by itself after some tens of frames. All follows from the seed.

    python -m support.tiny_orpheus OUT      OUT/checkpoint is the Hugging Face folder, OUT/voice what the server is given
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from export_lm import export
from numpy.typing import NDArray

VOCABULARY, FIRST_ADDED_ID, FIRST_CUSTOM_ID = 156_940, 128_000, 128_256
"""<custom_token_N> is FIRST_CUSTOM_ID + N. These and the ids in VOICE: canopyai/Orpheus-TTS, orpheus_tts/engine_class.py.
Orpheus itself has no top_k; here it spares the tests OpenVINO's sort of the whole vocabulary, 2 ms of processor time a token."""

VOICE: dict[str, Any] = {
    "name": "tiny orpheus",
    "tokens": {"audio_base": 128266, "codebook_size": 4096, "end_ids": [128258, 128262, 128009]},
    "prompt": {"before": [128259, 128000], "template": "{voice}: {text}", "after": [128009, 128260, 128261, 128257]},
    "frontend": {"kind": "text", "file": "tokenizer.json"},
    "voices": ["tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe"],
    "describes_voices": False,
    "sampling": {"temperature": 0.6, "top_p": 0.9, "top_k": 50, "repetition_penalty": 1.1},
    "length": {"base_frames": 100, "frames_per_character": 2.0, "max_segment_characters": 200},
    "codec": {"context_latents": 10, "latents_per_frame": 4, "samples_per_latent": 512, "sample_rate_hz": 24000},
}  # fmt: skip

SLOTS, CODES, AGES = 7, 4096, 4
AUDIO_BASE, START_OF_SPEECH, END_OF_SPEECH = 128_266, 128_257, 128_258
FRAMES_PER_AGE = 10
"""Speech has AGES ages, each of FRAMES_PER_AGE frames on average; a code's age is its remainder by AGES."""

WIDTH, LAYERS, HEADS, KEY_VALUE_HEADS, HEAD_DIM, HIDDEN = 64, 2, 4, 2, 16, 96
STATES = SLOTS * AGES + 1
"""The hidden state says in its first STATES numbers what comes next (a slot at an age, or the end); the rest is free."""
ENDING = STATES - 1

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KEY_VALUE_HEADS, "head_dim": HEAD_DIM, "intermediate_size": HIDDEN,
    "vocab_size": VOCABULARY, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
    "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    },
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "bos_token_id": 128000, "eos_token_id": 128009,
}  # fmt: skip


def build(out: Path, seed: int = 0, precision: str = "int8") -> Path:
    """Make everything below `out`; -> the voice's folder (voice.json, tokenizer.json and the exported model)."""
    checkpoint, voice = out / "checkpoint", out / "voice"
    build_checkpoint(checkpoint, seed)
    export(checkpoint, voice, precision)
    (voice / "voice.json").write_text(json.dumps(VOICE))
    (voice / "tokenizer.json").write_text((checkpoint / "tokenizer.json").read_text())
    return voice


def build_checkpoint(folder: Path, seed: int = 0) -> None:
    """The Hugging Face folder alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    safetensors.numpy.save_file(weights(seed), folder / "model.safetensors")


def weights(seed: int) -> dict[str, NDArray[np.float16]]:
    """Hugging Face's names. Layers write to the free part of the hidden state only, so the state stays what the last token says."""
    rng = np.random.default_rng(seed)

    def matrix(outputs: int, inputs: int, deviation: float) -> NDArray[np.float32]:
        return rng.standard_normal((outputs, inputs), np.float32) * np.float32(deviation)

    comes_next, is_state = _states()
    embedding, head = matrix(VOCABULARY, WIDTH, 1.0), matrix(VOCABULARY, WIDTH, 0.6)
    embedding[:, :STATES] = 0
    embedding[np.arange(VOCABULARY)[comes_next >= 0], comes_next[comes_next >= 0]] = 16
    head[:, :STATES] = 0
    head[np.arange(VOCABULARY)[is_state >= 0], is_state[is_state >= 0]] = 5
    made = {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{prefix}{name}.weight"] = np.ones(WIDTH, np.float32)
        shapes = {
            "self_attn.q_proj": (HEADS * HEAD_DIM, WIDTH), "self_attn.k_proj": (KEY_VALUE_HEADS * HEAD_DIM, WIDTH),
            "self_attn.v_proj": (KEY_VALUE_HEADS * HEAD_DIM, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD_DIM),
            "mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH), "mlp.down_proj": (WIDTH, HIDDEN),
        }  # fmt: skip
        for name, (outputs, inputs) in shapes.items():
            made[f"{prefix}{name}.weight"] = matrix(outputs, inputs, inputs**-0.5)
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            made[f"{prefix}{name}.weight"][:STATES] = 0
    return {name: tensor.astype(np.float16) for name, tensor in made.items()}


def _states() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every token: the state that it leads to, and the state that calls for it; -1 for none."""
    comes_next, is_state = np.full(VOCABULARY, -1), np.full(VOCABULARY, -1)
    slot, code = np.divmod(np.arange(SLOTS * CODES), CODES)
    age = code % AGES
    audio = slice(AUDIO_BASE, AUDIO_BASE + SLOTS * CODES)
    is_state[audio] = slot * AGES + age
    older = (slot == SLOTS - 1) & (code // AGES % FRAMES_PER_AGE == 0)
    comes_next[audio] = np.where(older & (age == AGES - 1), ENDING, (slot + 1) % SLOTS * AGES + age + older)
    comes_next[START_OF_SPEECH], is_state[END_OF_SPEECH] = 0, ENDING
    return comes_next, is_state


def tokenizer() -> dict[str, Any]:
    """`tokenizer.json` of a byte-level BPE without merges: 256 bytes, fillers where Llama 3 has its words, added tokens from 128000 on."""
    added = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_{i}|>" for i in range(7)), "<|eot_id|>"]
    added += [f"<|reserved_{i}|>" for i in range(len(added), FIRST_CUSTOM_ID - FIRST_ADDED_ID)]
    added += [f"<custom_token_{i}>" for i in range(VOCABULARY - FIRST_CUSTOM_ID)]
    words = [*_byte_characters(), *(f"filler {i}" for i in range(256, FIRST_ADDED_ID))]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": FIRST_ADDED_ID + i, "content": content, **plain} for i, content in enumerate(added)],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)}, "merges": []},
    }  # fmt: skip


def _byte_characters() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE: itself, or one from U+0100 on. (openai/gpt-2, encoder.py)"""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
