"""Speak the corpus with the teacher and keep what training needs.

    python -m pocket_voice.synthesise --corpus work/corpus.txt --out work/speech --hours 24

Each shard is a `.npz`:
    pcm        int16 [n_samples]        all utterances end to end, 24 kHz mono
    f0         float32 [n_samples/256]  the teacher's pitch in Hz, 0 where unvoiced
    starts     int64 [n + 1]            first sample of each utterance: multiples of 2048, whole frames
    phonemes   str [n]                  as the teacher reads them
    durations  int16 [sum(len + 2)]     per phoneme and the two pads, in units of 600 samples (25 ms)
    text       str [n]
Shards already there are kept, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pocket_voice.layout import FRAME, SAMPLE_RATE_HZ
from pocket_voice.teacher import Teacher, Utterance

UTTERANCES_PER_SHARD = 500
SHORTEST, LONGEST = 4 * FRAME, 24 * SAMPLE_RATE_HZ  # samples


@dataclass(frozen=True)
class Job:
    index: int
    sentences: list[str]
    out: Path


def write_shard(path: Path, spoken: list[tuple[str, Utterance]]) -> None:
    utterances = [utterance for _, utterance in spoken]
    temporary = path.with_suffix(".part.npz")
    np.savez(
        temporary,
        pcm=np.concatenate([(np.clip(u.audio, -1, 1) * 32767).astype(np.int16) for u in utterances]),
        f0=np.concatenate([u.f0_hz for u in utterances]),
        starts=np.cumsum([0] + [len(u.audio) for u in utterances]),
        phonemes=np.asarray([u.phonemes for u in utterances]),
        durations=np.concatenate([u.durations for u in utterances]),
        text=np.asarray([text for text, _ in spoken]),
    )
    temporary.replace(path)


def speak_shard(job: Job) -> float:
    """-> seconds of speech in the shard."""
    path = job.out / f"{job.index:04d}.npz"
    if not path.exists():
        teacher, rng = Teacher(), np.random.default_rng(job.index)
        spoken: list[tuple[str, Utterance]] = []
        for text in job.sentences:
            phonemes = teacher.phonemize(text)
            if phonemes and SHORTEST <= len((utterance := teacher.speak(phonemes, rng)).audio) <= LONGEST:
                spoken.append((text, utterance))
        write_shard(path, spoken)
    return float(np.load(path)["starts"][-1]) / SAMPLE_RATE_HZ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; set OMP_NUM_THREADS=1")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sentences: list[str] = args.corpus.read_text(encoding="utf-8").splitlines()
    starts = range(0, len(sentences), UTTERANCES_PER_SHARD)
    jobs = [Job(i, sentences[at : at + UTTERANCES_PER_SHARD], args.out) for i, at in enumerate(starts)]
    spoken_s = 0.0
    with mp.get_context("spawn").Pool(args.jobs) as pool:
        for seconds in pool.imap(speak_shard, jobs):
            spoken_s += seconds
            print(f"{spoken_s / 3600:.2f} h", flush=True)
            if spoken_s > args.hours * 3600:
                pool.terminate()
                break


if __name__ == "__main__":
    main()
