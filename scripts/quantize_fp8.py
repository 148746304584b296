"""Quantize an Orpheus-format checkpoint to FP8, weights and key-value cache, with NVIDIA ModelOpt.

    python scripts/quantize_fp8.py weights/orpheus-3b weights/orpheus-3b-fp8 --voice presets/orpheus-3b

The scales of the activations are calibrated on what the served model does: prompts in the voice's own format (VOICE is a folder with
voice.json; its tokenizer.json is taken from the checkpoint), and the speech that the model itself says to them, at the voice's default
sampling. OUT is a voice folder for the `tensorrt_llm` engine. Needs requirements/quantize.txt. Run on a processor with a tiny model in
tests; not run on a GPU or with the real model yet.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "model_repository/orpheus_lm/1"))

from speech_lm.frontends import load_frontend
from speech_lm.voice import Voice, load_voice

SENTENCES = (
    "Hello, thanks for calling. How can I help you today?",
    "Your order left the warehouse this morning and should reach you by Thursday afternoon.",
    "The train to London leaves at half past nine from platform four.",
    "I am so sorry to hear that. <sigh> Let me see what we can do about it.",
    "It is twenty three degrees and sunny, with a light wind from the west.",
    "Please hold the line while I look up your account.",
    "Once upon a time, in a small village by the sea, there lived an old clockmaker who never slept.",
    "Wait, you did what? <laugh> That is the funniest thing I have heard all week!",
    "The number you have dialled, 0 8 0 0, 5 5 5, 1 2 3 4, is not available.",
    "Add two cups of flour, a pinch of salt and one egg, then stir until smooth.",
    "No.",
    "The committee will publish its findings on the 14th of March, nineteen days later than planned.",
)


def quantize(checkpoint: Path, out: Path, voice_folder: Path, samples: int, max_tokens: int, device: str) -> None:
    """Raises ValueError for a checkpoint or voice that does not fit."""
    with tempfile.TemporaryDirectory() as scratch:
        voice = voice_of(checkpoint, voice_folder, Path(scratch))
        _quantize(checkpoint, out, voice, samples, max_tokens, device)


def voice_of(checkpoint: Path, voice_folder: Path, scratch: Path) -> Voice:
    """voice.json of the one folder with the frontend's file of the other, together in a third."""
    shutil.copyfile(voice_folder / "voice.json", scratch / "voice.json")
    file = load_voice(scratch).frontend.file
    source = checkpoint / file
    if not source.is_file():
        raise ValueError(f"{source} is missing: the checkpoint must bring what {voice_folder / 'voice.json'} names as its frontend's file")
    shutil.copyfile(source, scratch / file)
    return load_voice(scratch)


def _quantize(checkpoint: Path, out: Path, voice: Voice, samples: int, max_tokens: int, device: str) -> None:
    quantization: Any = import_module("modelopt.torch.quantization")
    with_cache: Any = import_module("modelopt.torch.quantization.utils").update_quant_cfg_with_kv_cache_quant
    export: Any = import_module("modelopt.torch.export").export_hf_checkpoint
    kind: Any = import_module("transformers").AutoModelForCausalLM
    prompts = calibration_prompts(voice, samples)
    model: Any = kind.from_pretrained(checkpoint, dtype=torch.bfloat16, use_safetensors=True, trust_remote_code=False)
    model.to(device).eval()
    config: Any = with_cache(copy.deepcopy(quantization.FP8_DEFAULT_CFG), quantization.FP8_KV_CFG["quant_cfg"])

    def forward(quantized: Any) -> None:
        speak(quantized, prompts, voice, max_tokens)

    quantization.quantize(model, config, forward)
    with torch.inference_mode():
        export(model, export_dir=str(out))
    shutil.copyfile(voice.folder / "voice.json", out / "voice.json")
    shutil.copyfile(voice.folder / voice.frontend.file, out / voice.frontend.file)


def calibration_prompts(voice: Voice, samples: int) -> list[list[int]]:
    """Every sentence with every voice in turn, so that few samples already hold all of both."""
    frontend = load_frontend(voice)
    return [
        frontend.read(SENTENCES[n % len(SENTENCES)], voice.voices[(n + n // len(SENTENCES)) % len(voice.voices)]).prompt_ids
        for n in range(samples)
    ]


@torch.inference_mode()
def speak(model: Any, prompts: Sequence[Sequence[int]], voice: Voice, max_tokens: int) -> None:
    """The forward passes that ModelOpt watches: each prompt, then each step of the speech after it."""
    torch.manual_seed(0)
    for number, prompt in enumerate(prompts, 1):
        ids = torch.tensor([list(prompt)], device=model.device)
        said: Any = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=True, temperature=voice.sampling.temperature,
            top_p=voice.sampling.top_p, repetition_penalty=voice.sampling.repetition_penalty, eos_token_id=sorted(voice.tokens.end_ids),
            pad_token_id=min(voice.tokens.end_ids),
        )  # fmt: skip
        print(f"calibrating: {number} of {len(prompts)} prompts, {said.shape[1] - len(prompt)} tokens said", file=sys.stderr)


def describe(out: Path) -> str:
    quantized = json.loads((out / "hf_quant_config.json").read_text(encoding="utf-8"))["quantization"]
    size = sum(file.stat().st_size for file in out.glob("*.safetensors"))
    return f"{out}: {size / 1e9:.2f} GB, weights {quantized['quant_algo']}, key-value cache {quantized['kv_cache_quant_algo']}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--voice", type=Path, help="folder with voice.json, such as presets/orpheus-3b; default: the checkpoint's own")
    parser.add_argument("--samples", type=int, default=48, help="prompts to calibrate on")
    parser.add_argument("--max-tokens", type=int, default=512, help="of speech for each prompt; 512 are 6 seconds")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(arguments)
    try:
        quantize(args.checkpoint, args.out, args.voice or args.checkpoint, args.samples, args.max_tokens, args.device)
    except (ValueError, OSError) as error:
        sys.exit(f"quantize_fp8: {error}")
    print(describe(args.out))


if __name__ == "__main__":
    main()
