"""The scripted engine keeps the engines' rules, and its scripts say what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from speech_lm.engines import EngineOptions, Sampling, create_engine
from speech_lm.tokens import TokenSpace
from support.generations import Heard, hear, run
from support.scripted_engine import FILE_VARIABLE, Script, ScriptedEngine, write_scripts

POCKET = Path(__file__).parents[3] / "model_repository" / "orpheus_lm" / "1" / "pocket"
SPACE = TokenSpace(audio_base=256, codebook_size=512, end_ids=frozenset({4}))


def sampling(seed: int = 0, max_tokens: int = 1000) -> Sampling:
    return Sampling(0.6, 0.9, 0, 1.0, seed, max_tokens, stop_ids=SPACE.end_ids)


def played(script: Script, max_tokens: int = 1000) -> Heard:
    async def play() -> Heard:
        return await hear(ScriptedEngine(POCKET, EngineOptions(0, 1)).play(script, sampling(max_tokens=max_tokens)))

    return run(play())


def test_whole_frames_then_the_end_whatever_the_size_of_updates() -> None:
    wanted = [SPACE.token_id(slot, code) for frame in Script(frames=3, codes_seed=5).codes(512) for slot, code in enumerate(frame)] + [4]
    assert len(wanted) == 22
    for update in (1, 3, 7, 50):
        heard = played(Script(frames=3, codes_seed=5, update_tokens=update))
        assert (heard.ids, heard.finish_reason) == (wanted, "stop")
        assert max(map(len, heard.updates)) == min(update, 22)


def test_faults_change_the_token_they_name_only() -> None:
    whole = list(Script(frames=2).ids(SPACE))
    audible = {"drop": [], "double": [whole[8]] * 2, "zero": [256 + 512], "last": [256 + 1023], "above": [256 + 1024]}
    for fault, at_8 in {**audible, "text": [128], "insert_text": [128, whole[8]]}.items():
        assert list(Script(frames=2, faults={8: fault}).ids(SPACE)) == whole[:8] + at_8 + whole[9:], fault
    with pytest.raises(ValueError, match="unknown fault"):
        list(Script(faults={0: "explode"}).ids(SPACE))


def test_a_cut_frame_a_repeated_one_and_text_alone() -> None:
    for extra in range(7):
        assert len(list(Script(frames=2, extra_tokens=extra).ids(SPACE))) == 14 + extra + 1
        assert len(Script(frames=2, extra_tokens=extra).codes(512)) == 2
    frames = Script(frames=3, repeat=True).codes(512)
    assert frames[0] == frames[1] == frames[2]
    assert set(Script(frames=2, text_only=True).ids(SPACE)) == {128, 4}


def test_never_ending_is_bounded_by_max_tokens() -> None:
    heard = played(Script(frames=None, update_tokens=7), max_tokens=100)
    assert (len(heard.ids), heard.finish_reason) == (100, "length")


@pytest.mark.parametrize("after", [0, 10])
def test_a_failure_comes_after_its_tokens(after: int) -> None:
    heard = played(Script(raise_after=after, update_tokens=7))
    assert heard.error is not None
    assert (len(heard.ids), heard.finish_reason) == (after, None)


def test_a_hanging_generation_can_be_aborted_and_closed() -> None:
    async def play() -> list[Heard]:
        engine = ScriptedEngine(POCKET, EngineOptions(0, 2))
        generations = [engine.play(Script(hang_after=3), sampling()) for _ in range(2)]
        for generation in generations:
            await anext(aiter(generation))
        generations[0].abort()
        generations[0].abort()
        await engine.close()
        return [await hear(generation) for generation in generations]

    assert run(play()) == [Heard(finish_reason="cancelled")] * 2


def test_the_file_chooses_by_seed_and_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scripts.json"
    monkeypatch.setenv(FILE_VARIABLE, str(file))

    async def lengths(*seeds: int) -> list[int]:
        engine = create_engine("support.scripted_engine:ScriptedEngine", POCKET, EngineOptions(0, 1))
        await engine.start()
        return [len((await hear(engine.submit([1, 2, 3], sampling(seed)))).ids) for seed in seeds]

    write_scripts(file, Script(frames=1), {7: Script(frames=2, faults={3: "drop"})})
    assert run(lengths(0, 7, 8)) == [8, 14, 8]
    write_scripts(file, Script(frames=4))
    assert run(lengths(0, 7)) == [29, 29]
