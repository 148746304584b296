"""What the callers want to hear. Characters of English; 15 of them are about a second of speech."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

SHORT = (
    "Yes, that is right.",
    "One moment, please.",
    "Your table is ready.",
    "I will call you back.",
)
MEDIUM = (
    "The train to London leaves at half past nine.",
    "Please put the blue cup on the shelf beside the window.",
    "It rained all night, but the morning was clear and bright.",
    "She asked him whether the letter had arrived yet.",
    "Your order has been sent and will be there on Friday.",
    "We could see the mountains from the kitchen window.",
)
LONG = (
    "Thank you for calling. Your appointment with the doctor is on Tuesday, the third of March, at a quarter past ten. "
    "Please bring your card with you, and come ten minutes early.",
    "The old clock on the wall stopped years ago, but nobody has taken it down. When the children ask what time it is, "
    "their grandfather looks at it, smiles, and says that it is time for a story.",
)
MIXES: dict[str, Sequence[str]] = {"short": SHORT, "medium": MEDIUM, "long": LONG, "mixed": (*SHORT * 3, *MEDIUM * 4, *LONG * 2)}
"""mixed: of 40 callers, 12 say a few words, 24 a sentence, 4 a paragraph."""


def texts_of(name_or_file: str) -> Sequence[str]:
    """A mix by name, or the lines of a file. Raises ValueError where there is neither."""
    if name_or_file in MIXES:
        return MIXES[name_or_file]
    path = Path(name_or_file)
    if not path.is_file():
        raise ValueError(f"texts are one of {', '.join(MIXES)}, or a file with one text a line; there is no {name_or_file!r}")
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} holds no text")
    return lines


def drawn(texts: Sequence[str], n: int, seed: int) -> list[str]:
    """n of them in a random order that `seed` repeats; each as often as the others, give or take one."""
    rng = random.Random(seed)
    order: list[str] = []
    while len(order) < n:
        order += rng.sample(list(texts), len(texts))
    return order[:n]
