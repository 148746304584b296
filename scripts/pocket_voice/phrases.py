"""Everyday sentences: templates filled with names, places, numbers, times and dates. All chance comes from the caller's generator."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

SLOTS_PATH = Path(__file__).with_name("slots.json")
TEMPLATES_PATH = Path(__file__).with_name("templates.txt")


@cache
def choices() -> dict[str, list[str]]:
    """Slot -> the words or names that may fill it."""
    return json.loads(SLOTS_PATH.read_text(encoding="utf-8"))


def pick(slot: str, rng: random.Random) -> str:
    return rng.choice(choices()[slot])


def templates(path: Path = TEMPLATES_PATH) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def time_of_day(rng: random.Random) -> str:
    hour, minute = rng.randint(1, 12), rng.randrange(0, 60, 5)
    word = choices()["hour"][hour - 1]
    forms = [
        f"half past {word}",
        f"quarter to {word}",
        f"quarter past {word}",
        f"{word} o'clock",
        f"{hour}:{minute:02d}",
        f"{hour}:{minute:02d} {rng.choice(['a.m.', 'p.m.'])}",
        f"{hour} {rng.choice(['a.m.', 'p.m.'])}",
    ]
    return rng.choice(forms)


def date(rng: random.Random) -> str:
    month_day = f"{pick('month', rng)} {rng.randint(1, 28)}"
    forms = [
        month_day,
        f"{pick('day', rng)}, {month_day}",
        f"the {pick('ordinal', rng)} of {pick('month', rng)}",
        f"next {pick('day', rng)}",
        f"{month_day}, {rng.randint(1900, 2035)}",
    ]
    return rng.choice(forms)


def digits(rng: random.Random, low: int = 3, high: int = 7) -> str:
    """Single digits with spaces between, as in a code that is read out."""
    return " ".join(str(rng.randint(0, 9)) for _ in range(rng.randint(low, high)))


def number(rng: random.Random) -> str:
    forms = [
        str(rng.randint(0, 20)),
        str(rng.randint(21, 99)),
        str(rng.randint(100, 999)),
        f"{rng.randint(1, 99)},{rng.randint(0, 999):03d}",
        f"{rng.randint(1, 99)}.{rng.randint(1, 99)}",
        digits(rng),
    ]
    return rng.choice(forms)


FILLERS: dict[str, Callable[[random.Random], str]] = {
    "time": time_of_day,
    "date": date,
    "number": number,
    "digits": digits,
    "digit": lambda rng: str(rng.randint(1, 9)),
    "count": lambda rng: str(rng.randint(1, 99)),
    "price": lambda rng: f"{rng.randint(1, 400)}.{rng.randint(0, 99):02d}",
    "year": lambda rng: str(rng.randint(1750, 2035)),
    "letters": lambda rng: " ".join(rng.choices(LETTERS, k=rng.randint(3, 5))),
}


def fill_slot(slot: str, rng: random.Random) -> str:
    """KeyError for an unknown slot."""
    return FILLERS[slot](rng) if slot in FILLERS else pick(slot, rng)


def fill(template: str, rng: random.Random) -> str:
    """Each `{slot}` gets its own draw, so that one template may hold two different cities. KeyError for an unknown slot."""
    return re.sub(r"\{(\w+)\}", lambda slot: fill_slot(slot.group(1), rng), template)


def bare_phrase(rng: random.Random) -> str:
    """A number, code, time, date or greeting that stands alone: short answers are what a caller hears most."""
    forms = [
        number(rng), digits(rng), time_of_day(rng), date(rng), f"{date(rng)}, at {time_of_day(rng)}", f"{pick('name', rng)}?",
        f"${fill_slot('price', rng)}", f"{rng.randint(1, 100)} percent", f"Hello, {pick('name', rng)}!", fill_slot("letters", rng),
    ]  # fmt: skip
    return rng.choice(forms)
