"""Speed and word error of the same language model at several weight precisions, side by side.

    python ../export_lm.py work/lm work/ir/f32 --precision f32        (and f16, int8)
    python -m pocket_voice.compare_precisions --codec work/codec --lm work/lm work/ir/f32 work/ir/int8

The folders take turns in every round, so that whatever else the machine does falls on all alike; the last line is a JSON object.
Runs OpenVINO GenAI's continuous batching, as the server does (`pip install openvino-genai`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import numpy as np
import openvino as ov
import openvino_genai as genai
import torch

from pocket_voice.codec import load_codec
from pocket_voice.listening import SENTENCES, Recogniser, WordErrors, compare, read_sentences
from pocket_voice.prompt import END_OF_SPEECH, speaking_prompt_ids
from pocket_voice.speaking import longest_answer, spoken_frames
from pocket_voice.teacher import Teacher

STREAMS = (1, 16)


class Speaker:
    """One IR folder behind a continuous batching pipeline."""

    def __init__(self, folder: Path) -> None:
        self._pipeline = genai.ContinuousBatchingPipeline(str(folder), genai.SchedulerConfig(), "CPU", {})
        self._ids = itertools.count()

    def speak(self, prompts: list[list[int]], temperature: float, top_p: float, seed: int) -> list[list[int]]:
        """All prompts at once -> their generated ids, the end id among them."""
        handles: list[genai.py_openvino_genai.GenerationHandle] = []
        for prompt in prompts:
            settings = genai.GenerationConfig()
            settings.do_sample, settings.temperature, settings.top_p, settings.rng_seed = True, temperature, top_p, seed
            settings.max_new_tokens = longest_answer(prompt)
            settings.eos_token_id, settings.stop_token_ids = END_OF_SPEECH, {END_OF_SPEECH}
            handles.append(self._pipeline.add_request(next(self._ids), ov.Tensor(np.array([prompt], np.int64)), settings))
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        return [list(handle.read_all()[0].generated_ids) for handle in handles]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--lm", type=Path, required=True, help="folder with characters.json")
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3, help="readings of all sentences for the word error")
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--top-p", type=float, default=0.9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    model, _ = load_codec(args.codec)
    teacher = Teacher()
    table = json.loads((args.lm / "characters.json").read_text(encoding="utf-8"))
    sentences = read_sentences(args.sentences)
    prompts = [speaking_prompt_ids(teacher.phonemize(text), table, model.codebook_size) for text, _ in sentences]
    speakers = {folder.name: Speaker(folder) for folder in args.folders}
    rates: dict[str, dict[int, list[float]]] = {name: {n: [] for n in STREAMS} for name in speakers}
    for seed, streams, (name, speaker) in itertools.product(range(args.rounds + 1), STREAMS, speakers.items()):
        began = time.perf_counter()
        codes = sum(map(len, speaker.speak(prompts[:streams], args.temperature, args.top_p, seed)))
        if seed:  # the first round warms up
            rates[name][streams].append(codes / (time.perf_counter() - began))
    report: dict[str, dict[str, float]] = {}
    for name, speaker in speakers.items():
        hear, errors, broken = Recogniser(), WordErrors(), 0
        for seed in range(args.seeds):
            for ids, (_, said) in zip(speaker.speak(prompts, args.temperature, args.top_p, seed), sentences, strict=True):
                audio = spoken_frames(model, ids)
                broken += audio is None
                errors.add(compare(said, hear(audio) if audio is not None else []))
        report[name] = {f"codes_per_s_{n}_streams": round(statistics.median(rates[name][n])) for n in STREAMS}
        report[name] |= {"word_error": round(errors.rate, 3), "words": errors.spoken, "broken_or_endless": broken}
        print(name, report[name], flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
