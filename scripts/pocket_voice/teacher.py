"""The teacher: `hibari-tts` (PyPI, Apache-2.0; its default voice is inside the wheel), with the durations and pitch that training needs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import onnx
from hibari import Hibari, dsp

from pocket_voice.layout import F0_STEP, FRAME

DURATION_UNIT = 600  # samples; the teacher counts phonemes in 25 ms
TEACHER_F0_STEP = 300  # samples of one of its pitch values
# The graph tensor that holds each phoneme's duration (hibari-tts 0.2.1, assets/hibari.onnx); not an output of the published model.
DURATIONS_TENSOR = "/Clip_output_0"


@dataclass(frozen=True)
class Utterance:
    phonemes: str
    audio: npt.NDArray[np.float32]  # [n_frames * 2048], 24 kHz, padded with silence
    f0_hz: npt.NDArray[np.float32]  # [n_frames * 8], 0 where unvoiced
    durations: npt.NDArray[np.int16]  # [len(phonemes) + 2], in DURATION_UNIT; the first and last are the teacher's pads


class Teacher:
    def __init__(self) -> None:
        import hibari

        graph = onnx.load(str(Path(hibari.__file__).parent / "assets" / "hibari.onnx"))
        graph.graph.output.append(onnx.helper.make_tensor_value_info(DURATIONS_TENSOR, onnx.TensorProto.FLOAT, None))
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(graph.SerializeToString())
            file.flush()
            self._voice = Hibari(model=file.name)

    def phonemize(self, text: str) -> str:
        return " ".join(self._voice.phonemize(text))

    def speak(self, phonemes: str, rng: np.random.Generator) -> Utterance:
        """`rng` makes the noise of the teacher's synthesiser."""
        feed = {"ids": np.asarray([self._voice.ids(phonemes)], np.int64), "speed": np.asarray([1.0], np.float32)}
        outputs = cast("list[npt.NDArray[np.float32]]", self._voice.sess.run(None, feed))
        harmonics, rotation, noise, residual, phase, f0_hz = (output[0] for output in outputs[:-1])
        durations = np.rint(outputs[-1].reshape(-1)).astype(np.int16)
        audio = dsp.synth(harmonics, rotation, noise, residual, phase, f0_hz, rng)
        audio = np.pad(audio, (0, -len(audio) % FRAME)).astype(np.float32)
        at = np.arange(len(audio) // F0_STEP) * F0_STEP // TEACHER_F0_STEP
        pitch = np.append(f0_hz.reshape(-1), 0).astype(np.float32)
        return Utterance(phonemes, audio, pitch[np.minimum(at, len(pitch) - 1)], durations)
