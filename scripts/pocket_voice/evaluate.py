"""How well the pocket voice can be understood, beside its teacher.

    python -m pocket_voice.evaluate codec --codec work/codec
    python -m pocket_voice.evaluate lm --codec work/codec --lm work/lm

`codec`: teacher -> encode -> decode, with STOI. `lm`: text -> phonemes -> language model -> decode, sampled with transformers' own Llama,
which also checks the checkpoint's layout; with durations and streams that did not end. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from pystoi import stoi
from transformers import LlamaForCausalLM

from pocket_voice.codec import load_codec
from pocket_voice.layout import SAMPLE_RATE_HZ
from pocket_voice.listening import SENTENCES, Recogniser, WordErrors, compare, read_sentences
from pocket_voice.prompt import END_OF_SPEECH, PAD, prompt_ids
from pocket_voice.speaking import Audio, longest_answer, spoken_frames, through_codec
from pocket_voice.teacher import Teacher


@torch.inference_mode()
def generated(llama: LlamaForCausalLM, table: dict[str, int], phonemes: str, temperature: float, top_p: float) -> list[int]:
    prompt = prompt_ids(phonemes, table)
    ids = llama.generate(  # pyright: ignore[reportAttributeAccessIssue]: a mixin's method
        torch.tensor([prompt]), do_sample=True, temperature=temperature, top_p=top_p, top_k=0, max_new_tokens=longest_answer(len(phonemes)),
        eos_token_id=END_OF_SPEECH, pad_token_id=PAD,
    )  # fmt: skip
    return ids[0, len(prompt) :].tolist()


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
    model, encoder = load_codec(args.codec)
    teacher, hear_teacher, hear_voice = Teacher(), Recogniser(), Recogniser()
    llama = table = None
    if args.what == "lm":
        llama = LlamaForCausalLM.from_pretrained(str(args.lm)).eval()
        table = json.loads((args.lm / "characters.json").read_text(encoding="utf-8"))
    of_teacher, of_voice = WordErrors(), WordErrors()
    stois: list[float] = []
    ratios: list[float] = []
    endless = 0
    for i, (text, said) in enumerate(read_sentences(args.sentences)):
        real = teacher.speak(teacher.phonemize(text), np.random.default_rng(0))
        of_teacher.add(compare(said, hear_teacher(real.audio)))
        if llama is None or table is None:
            made: Audio | None = through_codec(model, encoder, real)
        else:
            made = spoken_frames(model, generated(llama, table, real.phonemes, args.temperature, args.top_p))
        heard = hear_voice(made) if made is not None else []
        errors = compare(said, heard)
        of_voice.add(errors)
        if errors.errors:
            print(f"{errors.errors} {text} -> {' '.join(heard)}", flush=True)
        if made is None:
            endless += 1
            continue
        ratios.append(len(made) / len(real.audio))
        if llama is None:
            stois.append(float(stoi(real.audio, made, SAMPLE_RATE_HZ)))
        if args.save:
            from hibari import write_wav

            args.save.mkdir(parents=True, exist_ok=True)
            write_wav(str(args.save / f"{i:03d}.wav"), made)
    report: dict[str, float] = {
        "words": of_voice.spoken, "word_error": round(of_voice.rate, 3), "teacher_word_error": round(of_teacher.rate, 3),
    }  # fmt: skip
    if stois:
        report["stoi"] = round(float(np.mean(stois)), 3)
    else:
        within = np.abs(np.array(ratios) - 1) <= 0.3
        report |= {"endless": endless, "durations_within_30_percent": round(float(within.mean()), 3)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
