"""How well the pocket voice can be understood, beside its teacher.

    python -m pocket_voice.evaluate codec --codec work/codec
    python -m pocket_voice.evaluate lm --codec work/codec --lm work/lm

`codec`: teacher -> encode -> decode, with STOI. `lm`: text -> phonemes -> language model -> decode, sampled with transformers' own Llama,
which also checks the checkpoint's layout; with durations and streams that did not end. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from pystoi import stoi
from transformers import LlamaForCausalLM

from pocket_voice.codec import load_codec
from pocket_voice.layout import SAMPLE_RATE_HZ
from pocket_voice.listening import SENTENCES, Recogniser, WordErrors, compare, read_sentences
from pocket_voice.prompt import END_OF_SPEECH, PAD, speaking_prompt_ids
from pocket_voice.speaking import Audio, longest_answer, spoken_frames, through_codec
from pocket_voice.teacher import Teacher

Sentences = list[tuple[str, list[str]]]


@torch.inference_mode()
def generated(llama: LlamaForCausalLM, prompt: list[int], temperature: float, top_p: float) -> list[int]:
    ids = llama.generate(  # pyright: ignore[reportAttributeAccessIssue]: a mixin's method
        torch.tensor([prompt]), do_sample=True, temperature=temperature, top_p=top_p, top_k=0, max_new_tokens=longest_answer(prompt),
        eos_token_id=END_OF_SPEECH, pad_token_id=PAD,
    )  # fmt: skip
    return ids[0, len(prompt) :].tolist()


@dataclass
class Tally:
    """Word errors of teacher and voice over the same sentences. Every sentence that was not understood is printed, every sound saved."""

    save: Path | None = None
    of_teacher: WordErrors = field(default_factory=WordErrors)
    of_voice: WordErrors = field(default_factory=WordErrors)
    hear_teacher: Recogniser = field(default_factory=Recogniser)
    hear_voice: Recogniser = field(default_factory=Recogniser)
    n: int = 0

    def add(self, text: str, said: list[str], real: Audio, made: Audio | None) -> None:
        self.of_teacher.add(compare(said, self.hear_teacher(real)))
        heard = self.hear_voice(made) if made is not None else []
        errors = compare(said, heard)
        self.of_voice.add(errors)
        if errors.errors:
            print(f"{errors.errors} {text} -> {' '.join(heard)}", flush=True)
        if self.save and made is not None:
            from hibari import write_wav

            self.save.mkdir(parents=True, exist_ok=True)
            write_wav(f"{self.save / f'{self.n:03d}.wav'}", made)
        self.n += 1

    def report(self) -> dict[str, float]:
        return {
            "words": self.of_voice.spoken,
            "word_error": round(self.of_voice.rate, 3),
            "teacher_word_error": round(self.of_teacher.rate, 3),
        }


def measure_codec(folder: Path, sentences: Sentences, save: Path | None = None) -> dict[str, float]:
    """Of the codec alone: `word_error`, `teacher_word_error`, mean `stoi` with the teacher's sound as the clean one."""
    model, encoder = load_codec(folder)
    teacher, tally = Teacher(), Tally(save)
    stois: list[float] = []
    for text, said in sentences:
        real = teacher.speak(teacher.phonemize(text), np.random.default_rng(0))
        made = through_codec(model, encoder, real)
        tally.add(text, said, real.audio, made)
        stois.append(float(stoi(real.audio, made, SAMPLE_RATE_HZ)))
    return {**tally.report(), "stoi": round(float(np.mean(stois)), 3)}


def measure_lm(args: argparse.Namespace, sentences: Sentences) -> dict[str, float]:
    """Of language model and codec together, with `endless` streams and the share of `durations_within_30_percent` of the teacher's."""
    model, _ = load_codec(args.codec)
    llama = LlamaForCausalLM.from_pretrained(f"{args.lm}").eval()
    table = json.loads((args.lm / "characters.json").read_text(encoding="utf-8"))
    teacher, tally = Teacher(), Tally(args.save)
    ratios: list[float] = []
    for text, said in sentences:
        real = teacher.speak(teacher.phonemize(text), np.random.default_rng(0))
        prompt = speaking_prompt_ids(real.phonemes, table, model.codebook_size)
        made = spoken_frames(model, generated(llama, prompt, args.temperature, args.top_p))
        tally.add(text, said, real.audio, made)
        if made is not None:
            ratios.append(len(made) / len(real.audio))
    within = np.abs(np.array(ratios) - 1) <= 0.3
    return {
        **tally.report(),
        "endless": tally.n - len(ratios),
        "durations_within_30_percent": round(float(within.mean()), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["codec", "lm"])
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--lm", type=Path)
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder for WAV files")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    sentences = read_sentences(args.sentences)
    print(json.dumps(measure_codec(args.codec, sentences, args.save) if args.what == "codec" else measure_lm(args, sentences)))


if __name__ == "__main__":
    main()
