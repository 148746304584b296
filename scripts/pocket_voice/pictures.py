"""Spectrograms of the teacher and of other voices side by side, as one small PNG for each sentence.

    python -m pocket_voice.pictures --out ../docs/pocket_voice --sentence "There is fresh bread." codec=work/codec

Each `name=folder` is a codec (snac/ and encoder.safetensors) that the teacher's speech goes through. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import torch
from matplotlib import pyplot as plt
from scipy.signal import stft

from pocket_voice.codec import load_codec
from pocket_voice.layout import SAMPLE_RATE_HZ
from pocket_voice.speaking import through_codec
from pocket_voice.teacher import Teacher

FFT_SIZE, FFT_STEP = 1024, 256
FLOOR_DB = -75.0


def level_db(audio: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """-> dB below the loudest, float64 [bins, columns]"""
    _, _, spectrum = stft(audio, SAMPLE_RATE_HZ, nperseg=FFT_SIZE, noverlap=FFT_SIZE - FFT_STEP)
    magnitude = np.abs(np.asarray(spectrum))
    return np.maximum(FLOOR_DB, 20 * np.log10(magnitude / magnitude.max() + 1e-9))


def draw(path: Path, title: str, voices: dict[str, npt.NDArray[np.float32]]) -> None:
    mpl.use("Agg")
    figure, axes = plt.subplots(len(voices), 1, figsize=(7, 2.1 * len(voices)), sharex=True, squeeze=False)
    for axis, (name, audio) in zip(axes[:, 0], voices.items(), strict=True):
        extent = (0, len(audio) / SAMPLE_RATE_HZ, 0, SAMPLE_RATE_HZ / 2000)
        axis.imshow(level_db(audio), origin="lower", aspect="auto", extent=extent, cmap="magma", vmin=FLOOR_DB, vmax=0)
        axis.set_ylabel(f"{name}\nkHz")
    axes[-1, 0].set_xlabel("s")
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codecs", nargs="+", metavar="name=folder")
    parser.add_argument("--sentence", action="append", required=True, help="may be given several times")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    teacher = Teacher()
    codecs = {name: load_codec(Path(folder)) for name, _, folder in (pair.partition("=") for pair in args.codecs)}
    for sentence in args.sentence:
        real = teacher.speak(teacher.phonemize(sentence), np.random.default_rng(0))
        voices = {"teacher": real.audio} | {name: through_codec(*codec, real) for name, codec in codecs.items()}
        path = args.out / (re.sub(r"\W+", "_", sentence.lower()).strip("_")[:60] + ".png")
        draw(path, sentence, voices)
        print(path)


if __name__ == "__main__":
    main()
