"""How well a running server speaks: word error, durations, streams that did not end, beside the teacher's own figures.

    PYTHONPATH=scripts python perf/quality.py --url localhost:8001 --out perf/results/quality.json

Every sentence of the two lists in scripts/pocket_voice is spoken at the server's default sampling, --readings times with different seeds.
The recogniser, pocketsphinx, hears the teacher's and the server's speech: a sentence on which both fail says little. `skipped` and
`repeated` are what the recogniser missed or heard twice, so they hold its own mistakes too. With --codec (a folder that
scripts/pocket_voice/train_codec.py wrote) the codec alone is measured as well: teacher -> encode -> decode, STOI and word error.
"""

from __future__ import annotations

import argparse
import json
import platform
import queue
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pocket_voice.listening import HARD_SENTENCES, SENTENCES, Recogniser, WordErrors, compare, read_sentences
from pocket_voice.teacher import Teacher, Utterance
from tritonclient import grpc as triton

MODEL = "orpheus_tts"
FULL_SCALE = 32768
NEAR = 0.3  # durations within 30 % of the teacher's count as right
QUIET_PEAK = 1000  # of 32768: an utterance below it is silent


@dataclass(frozen=True)
class Answer:
    audio: npt.NDArray[np.int16]
    finish_reason: str


def speak(url: str, text: str, seed: int, timeout_s: float) -> Answer:
    """One utterance over one connection. Raises InferenceServerException for an error on the stream, queue.Empty after `timeout_s`."""
    inputs = [triton.InferInput("TEXT", [1], "BYTES"), triton.InferInput("SEED", [1], "INT64")]
    inputs[0].set_data_from_numpy(np.array([text.encode()], np.object_))
    inputs[1].set_data_from_numpy(np.array([seed], np.int64))
    events: queue.Queue[tuple[Any, Any]] = queue.Queue()
    chunks: list[npt.NDArray[np.int16]] = []

    def collect(result: Any, error: Any) -> None:
        events.put((result, error))

    with triton.InferenceServerClient(url) as client:
        client.start_stream(collect)
        client.async_stream_infer(MODEL, inputs, enable_empty_final_response=True)
        reason = ""
        while not reason:
            result, error = events.get(timeout=timeout_s)
            if error is not None:
                raise error
            chunks.append(result.as_numpy("AUDIO").reshape(-1))
            reason = result.as_numpy("FINISH_REASON").reshape(-1)[0].decode()
    return Answer(np.concatenate(chunks), reason)


@dataclass
class Tally:
    """Of one list of sentences."""

    teacher: WordErrors = field(default_factory=WordErrors)
    server: WordErrors = field(default_factory=WordErrors)
    utterances: int = 0
    endless: int = 0
    silent: int = 0
    near_in_duration: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, text: str, said: list[str], real: Utterance, teacher_heard: list[str], answer: Answer, heard: list[str]) -> None:
        of_teacher, of_server = compare(said, teacher_heard), compare(said, heard)
        self.teacher.add(of_teacher)
        self.server.add(of_server)
        self.utterances += 1
        self.endless += answer.finish_reason != "stop"
        self.silent += int(np.abs(answer.audio).max(initial=0)) < QUIET_PEAK
        ratio = len(answer.audio) / len(real.audio)
        self.near_in_duration += abs(ratio - 1) <= NEAR
        if of_server.errors > of_teacher.errors or answer.finish_reason != "stop":
            self.failures.append(
                {"text": text, "heard": " ".join(heard), "teacher_heard": " ".join(teacher_heard), "duration_ratio": round(ratio, 2),
                 "finish_reason": answer.finish_reason}
            )  # fmt: skip

    def report(self) -> dict[str, Any]:
        return {
            "utterances": self.utterances,
            "words": self.server.spoken,
            "word_error": round(self.server.rate, 3),
            "teacher_word_error": round(self.teacher.rate, 3),
            "replaced": self.server.replaced, "skipped": self.server.skipped, "added": self.server.added, "repeated": self.server.repeated,
            "teacher_replaced": self.teacher.replaced, "teacher_skipped": self.teacher.skipped, "teacher_added": self.teacher.added,
            "endless": self.endless,
            "silent": self.silent,
            "durations_within_30_percent": round(self.near_in_duration / max(1, self.utterances), 3),
            "failures": self.failures,
        }  # fmt: skip


def measure_server(args: argparse.Namespace, teacher: Teacher, sentences: list[tuple[str, list[str]]]) -> dict[str, Any]:
    tally, hear_teacher, hear_server = Tally(), Recogniser(), Recogniser()
    for seed in range(args.readings):
        for text, said in sentences:
            real = teacher.speak(teacher.phonemize(text), np.random.default_rng(seed))
            answer = speak(args.url, text, seed, args.timeout_s)
            heard = hear_server(answer.audio.astype(np.float32) / FULL_SCALE)
            tally.add(text, said, real, hear_teacher(real.audio), answer, heard)
    return tally.report()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="localhost:8001")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    parser.add_argument("--readings", type=int, default=1, help="of each sentence, with seeds 0, 1, ...")
    parser.add_argument("--codec", type=Path, help="folder with snac/ and encoder.safetensors")
    parser.add_argument("--timeout-s", type=float, default=60, help="between two chunks")
    args = parser.parse_args()
    teacher = Teacher()
    report: dict[str, Any] = {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "recogniser": "pocketsphinx, US English model of the wheel",
        "sampling": "the server's defaults",
        "readings": args.readings,
    }
    for name, path in (("unseen_sentences", SENTENCES), ("hard_sentences", HARD_SENTENCES)):
        report[name] = measure_server(args, teacher, read_sentences(path))
        print(name, {key: value for key, value in report[name].items() if key != "failures"}, flush=True)
    if args.codec:
        from pocket_voice.evaluate import measure_codec  # needs torch, snac and transformers

        report["codec_alone"] = measure_codec(args.codec, read_sentences(SENTENCES))
        print("codec_alone", report["codec_alone"], flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
