"""Write the training sentences, one a line: WordNet's glosses and examples, everyday templates, bare words and numbers, long utterances.

    python -m pocket_voice.corpus --wordnet /usr/share/wordnet --out work/corpus.txt

WordNet 3.0 comes from Debian's package `wordnet-base` (Princeton's permissive licence). Same arguments, same file.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pocket_voice import phrases

MIN_CHARS, MAX_CHARS = 2, 190
MAX_LONG_CHARS = 320  # a sentence of 40 words is about 230
UNWANTED_PATH = Path(__file__).with_name("unwanted_words.txt")
READABLE = re.compile(r"^[A-Za-z0-9 ,.;:'!?$%/-]+$")


def unwanted_pattern(path: Path = UNWANTED_PATH) -> re.Pattern[str]:
    """One expression for all words of the list; `*` at the end of a word stands for any ending."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    words = [line for line in lines if line and not line.startswith("#")]
    forms = [re.escape(w[:-1]) + r"[\w'-]*" if w.endswith("*") else re.escape(w) for w in words]
    return re.compile(rf"\b(?:{'|'.join(forms)})\b", re.IGNORECASE)


def tidy(text: str, unwanted: re.Pattern[str], max_chars: int = MAX_CHARS) -> str | None:
    """Sentence case and closing punctuation; None where the line is nothing for a voice to practise."""
    text = re.sub(r"\s*\([^)]*\)", "", text)
    text = re.sub(r"[;,]?\s*-\s?[A-Z][\w. ]*$", "", text)  # the quotation's author
    text = re.sub(r"([.!?;])(?:\s*[.;])+", r"\1", re.sub(r"\s+", " ", text)).strip(" -;:,'")
    if not MIN_CHARS <= len(text) <= max_chars or not READABLE.match(text) or unwanted.search(text):
        return None
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def synset_glosses(folder: Path) -> Iterator[tuple[str, str]]:
    """(part of speech, gloss) of every synset; the format is WordNet's `wndb(5WN)`."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if not line.startswith("  ") and "|" in line:
                yield part, line.split("|", 1)[1].strip()


def wordnet_sentences(folder: Path, rng: random.Random, definition_share: float = 0.35) -> Iterator[str]:
    """All quoted examples, and some of the definitions: they are less like speech, and there are many more."""
    for part, gloss in synset_glosses(folder):
        yield from re.findall(r'"([^"]+)"', gloss)
        definition = re.sub(r'"[^"]*"', "", gloss).strip(" ;,")
        if (part != "noun" or len(definition) < 90) and rng.random() < definition_share:
            yield definition


def common_words(folder: Path, count: int) -> list[str]:
    """The words that WordNet's tagged texts hold most often (`cntlist.rev`), for utterances of one word."""
    totals: dict[str, int] = {}
    for line in (folder / "cntlist.rev").read_text(encoding="latin-1").splitlines():
        sense_key, _, uses = line.split()
        word = sense_key.split("%")[0]
        if word.isalpha():
            totals[word] = totals.get(word, 0) + int(uses)
    return sorted(totals, key=lambda word: (-totals[word], word))[:count]


def joined(sentences: list[str], rng: random.Random, count: int, min_chars: int, max_chars: int) -> list[str]:
    """Neighbours run together, so that the model meets pauses and long utterances."""
    found: list[str] = []
    while len(found) < count:
        parts = [rng.choice(sentences)]
        wanted = rng.randint(min_chars, max_chars)
        while sum(map(len, parts)) + len(parts) < wanted:
            parts.append(rng.choice(sentences))
        text = rng.choice([" ", " ", ", and "]).join(parts)
        if ", and " in text:
            text = re.sub(r"[.!?], and (\w)", lambda m: ", and " + m.group(1).lower(), text)
        if min_chars <= len(text) <= max_chars:
            found.append(text)
    return found


def unique(lines: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(line for line in lines if line))


def short_and_long(wordnet: Path, sentences: list[str], rng: random.Random, words: int, bare: int, long: int) -> list[str]:
    """What plain sentences leave out: single words, bare numbers, times and dates, utterances of 40 words and more."""
    unwanted = unwanted_pattern()
    short = itertools.chain(common_words(wordnet, words), (phrases.bare_phrase(rng) for _ in range(bare)))
    return unique(tidy(text, unwanted) for text in short) + joined(sentences, rng, long, MAX_CHARS, MAX_LONG_CHARS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--templates", type=int, default=14_000, help="draws from the templates; equal ones are kept once")
    parser.add_argument("--pairs", type=int, default=9_000, help="two sentences in one utterance")
    parser.add_argument("--words", type=int, default=3_000, help="utterances of one common word")
    parser.add_argument("--bare", type=int, default=4_000, help="bare numbers, codes, times and dates")
    parser.add_argument("--long", type=int, default=800, help=f"utterances of {MAX_CHARS} to {MAX_LONG_CHARS} characters")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, unwanted, templates = random.Random(args.seed), unwanted_pattern(), phrases.templates()
    drawn = (phrases.fill(rng.choice(templates), rng) for _ in range(args.templates))
    sentences = unique(tidy(text, unwanted) for text in itertools.chain(wordnet_sentences(args.wordnet, rng), drawn))
    pairs = joined(sentences, rng, args.pairs, 40, MAX_CHARS)
    rest = short_and_long(args.wordnet, sentences, rng, args.words, args.bare, args.long)
    corpus = unique(sentences + pairs + rest)
    rng.shuffle(corpus)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(corpus) + "\n", encoding="utf-8")
    print(f"{len(corpus)} sentences, {sum(map(len, corpus)) / len(corpus):.0f} characters on average")


if __name__ == "__main__":
    main()
