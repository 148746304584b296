"""An engine for tests: it plays scripts of token ids, with every fault that speech models were seen to make.

The server under test runs with this file in orpheus_lm's version folder (support.scripted_server), `scripted_engine:ScriptedEngine` as
engine, and
SCRIPTED_ENGINE_FILE naming a file of `write_scripts`, which is read anew for every request: a test may change it while the server
runs. A request is played the script of its SEED (segment n of a text has SEED + n), or else the default one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from speech_lm.engines import EngineError, EngineOptions, Sampling
from speech_lm.engines.generation import FilledGeneration
from speech_lm.tokens import SLOTS_PER_FRAME, TokenSpace
from speech_lm.voice import load_voice

FILE_VARIABLE = "SCRIPTED_ENGINE_FILE"


@dataclass(frozen=True)
class Script:
    """One generation. Token numbers count the ids of the faultless stream from 0.

    frames: whole frames, None for a model that never ends; extra_tokens: of a last frame that the end cuts short;
    codes_seed: of the random codes; repeat: the same frame again and again;
    faults: {token number: fault}, where a fault is "drop", "double", "zero" (code 0), "last" (the highest code), "above" (the id after the
    slot's highest code), "text" (a text id takes the token's place) or "insert_text" (it comes before it);
    text_only: every id is a text id; update_tokens: ids handed over at once; tokens_per_s: 0 for as fast as it goes;
    raise_after, hang_after: so many ids, then the engine fails, or says nothing any more.
    """

    frames: int | None = 8
    extra_tokens: int = 0
    codes_seed: int = 0
    repeat: bool = False
    faults: Mapping[int, str] | None = None
    text_only: bool = False
    update_tokens: int = 1
    tokens_per_s: float = 0.0
    raise_after: int | None = None
    hang_after: int | None = None

    def ids(self, space: TokenSpace) -> Iterator[int]:
        """All ids with the end id, without an end where the script never ends."""
        text_id = space.audio_base // 2
        faults = self.faults or {}
        for number, (slot, code) in enumerate(self._codes(space.codebook_size)):
            fault = faults.get(number)
            if self.text_only or fault == "text":
                yield text_id
            elif fault is None:
                yield space.token_id(slot, code)
            elif fault == "double":
                yield from (space.token_id(slot, code), space.token_id(slot, code))
            elif fault == "insert_text":
                yield from (text_id, space.token_id(slot, code))
            elif fault in ("zero", "last", "above"):
                yield space.token_id(slot, {"zero": 0, "last": space.codebook_size - 1, "above": space.codebook_size}[fault])
            elif fault != "drop":
                raise ValueError(f"unknown fault {fault!r}")
        yield min(space.end_ids)

    def codes(self, codebook_size: int) -> list[list[int]]:
        """The faultless frames, n_frames x 7; only where the script ends."""
        flat = [code for _, code in self._codes(codebook_size)]
        return [flat[i : i + SLOTS_PER_FRAME] for i in range(0, len(flat) - self.extra_tokens, SLOTS_PER_FRAME)]

    def _codes(self, codebook_size: int) -> Iterator[tuple[int, int]]:
        rng = np.random.default_rng(self.codes_seed)
        frame: list[int] = rng.integers(0, codebook_size, SLOTS_PER_FRAME).tolist()
        for number in itertools.count() if self.frames is None else range(self.frames + 1):
            yield from list(enumerate(frame))[: self.extra_tokens if number == self.frames else SLOTS_PER_FRAME]
            frame = frame if self.repeat else rng.integers(0, codebook_size, SLOTS_PER_FRAME).tolist()


def write_scripts(path: Path, default: Script | None = None, by_seed: Mapping[int, Script] | None = None) -> None:
    """In one step, so that a running server never reads half a file."""
    text = json.dumps({"default": asdict(default or Script()), "by_seed": {seed: asdict(s) for seed, s in (by_seed or {}).items()}})
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _read_script(seed: int | None) -> Script:
    file = os.environ.get(FILE_VARIABLE)
    if file is None:
        return Script()
    scripts: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
    fields: dict[str, Any] = scripts["by_seed"].get(str(seed), scripts["default"])
    faults: dict[str, str] = fields["faults"] or {}
    fields["faults"] = {int(number): fault for number, fault in faults.items()}
    return Script(**fields)


class ScriptedEngine:
    """Satisfies `Engine`. prompts: what was submitted, in order."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._space = load_voice(folder).tokens
        self._tasks: dict[asyncio.Task[None], FilledGeneration] = {}
        self.prompts: list[list[int]] = []

    @property
    def max_context_tokens(self) -> int | None:
        return None

    async def start(self) -> None:
        """Nothing to load."""

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> FilledGeneration:
        self.prompts.append(list(prompt_ids))
        return self.play(_read_script(sampling.seed), sampling)

    def play(self, script: Script, sampling: Sampling) -> FilledGeneration:
        def stop() -> None:
            task.cancel()

        generation = FilledGeneration(on_abort=stop)
        task = asyncio.get_running_loop().create_task(self._play(script, sampling, generation))
        self._tasks[task] = generation
        task.add_done_callback(self._tasks.pop)
        return generation

    async def close(self) -> None:
        tasks = list(self._tasks)
        for generation in list(self._tasks.values()):
            generation.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _play(self, script: Script, sampling: Sampling, generation: FilledGeneration) -> None:
        loop = asyncio.get_running_loop()
        began, said, ids = loop.time(), 0, script.ids(self._space)
        ends = [n for n in (sampling.max_tokens, script.raise_after, script.hang_after) if n is not None]
        while True:
            if said == script.raise_after:
                return generation.fail(EngineError("the script says so"))
            if said == script.hang_after:
                await loop.create_future()
            if said == sampling.max_tokens:
                return generation.finish("length")
            update = list(itertools.islice(ids, min(script.update_tokens, min(ends) - said)))
            said += len(update)
            due = began + said / script.tokens_per_s if script.tokens_per_s else 0.0
            await asyncio.sleep(max(0.0, due - loop.time()))
            generation.push(update)
            if not update or update[-1] in sampling.stop_ids:
                return generation.finish("stop")
