"""The engine on a fake of TensorRT-LLM that refuses what the library refuses. What only a GPU can show is not shown here."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from speech_lm.engines import EngineError, EngineOptions, Sampling, create_engine
from speech_lm.engines.tensorrt_llm import NO_END, TensorRtLlmEngine
from speech_lm.engines.tensorrt_llm_config import EngineConfig, kv_cache_dtype, load_engine_config
from speech_lm.engines.tensorrt_llm_versions import Release, release_of
from support.fake_tensorrt_llm import Library, RequestError, installed
from support.generations import Heard, hear, run

END = 128258
SAMPLING = Sampling(0.6, 0.9, 0, 1.1, seed=3, max_tokens=50, stop_ids=frozenset({END, 128009}))
VERSIONS = [
    ("1.0.0", True),
    ("1.1.0", True),
    ("1.2.0rc8", True),
    ("1.2.1", True),
    ("1.3.0rc25", True),
    ("1.3.0rc26", False),
    ("1.4.0", False),
]


def speak(prompt: Sequence[int], said: Sequence[int]) -> int:
    """Stammers after the probe's prompt; says what follows the prompt's last id else, ten ids and the end."""
    if list(prompt) == [0]:
        return 7
    return END if len(said) == 10 else prompt[-1] + 1 + len(said)


async def started(folder: Path, max_streams: int = 4) -> TensorRtLlmEngine:
    engine = create_engine("tensorrt_llm", folder, EngineOptions(0, max_streams))
    assert isinstance(engine, TensorRtLlmEngine)
    await engine.start()
    return engine


@pytest.mark.parametrize(("version", "takes_trtllm_sampler"), VERSIONS)
def test_ids_come_as_deltas_in_every_release(version: str, takes_trtllm_sampler: bool, tmp_path: Path) -> None:
    async def work() -> Heard:
        engine = await started(tmp_path)
        heard = await hear(engine.submit([5, 100], SAMPLING))
        await engine.close()
        return heard

    with installed(version, speak, takes_trtllm_sampler) as library:
        heard = run(work())
    assert (heard.ids, heard.finish_reason, heard.error) == ([*range(101, 111), END], "stop", None)
    assert len(heard.updates[0]) == 1, "the first token at once"
    assert library.llms[0].shut_down
    assert os.environ["TRTLLM_NO_USAGE_STATS"] == "1"


def test_what_the_library_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "engine.yaml").write_text("max_seq_len: 2048\nkv_cache_fraction: 0.5\ncuda_graph_padding: false\n")
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}))

    async def work() -> None:
        engine = await started(tmp_path, max_streams=16)
        assert engine.max_context_tokens == 2048
        await hear(engine.submit([5, 100], replace(SAMPLING, top_k=40)))
        await hear(engine.submit([5, 100], replace(SAMPLING, temperature=0.0, stop_ids=frozenset())))
        await engine.close()

    with installed("1.2.1", speak) as library:
        run(work())
    asked: dict[str, Any] = dict(library.llms[0].arguments)
    kv_cache, graphs = asked.pop("kv_cache_config"), asked.pop("cuda_graph_config")
    assert asked == {
        "model": str(tmp_path), "skip_tokenizer_init": True, "dtype": "auto", "tensor_parallel_size": 1, "max_batch_size": 16,
        "max_num_tokens": 4096, "max_seq_len": 2048, "enable_chunked_prefill": True, "stream_interval": 7, "sampler_type": "TRTLLMSampler",
    }  # fmt: skip
    assert (kv_cache.free_gpu_memory_fraction, kv_cache.dtype, kv_cache.enable_block_reuse) == (0.5, "fp8", True)
    assert (graphs.max_batch_size, graphs.enable_padding) == (16, False)
    first, greedy = [result._sampling for result in library.llms[0].results[-2:]]  # pyright: ignore[reportPrivateUsage]
    wanted = {"end_id": 128009, "stop_token_ids": [END], "max_tokens": 50, "temperature": 0.6, "top_p": 0.9, "top_k": 40}
    assert {name: getattr(first, name) for name in wanted} == wanted
    assert (first.repetition_penalty, first.seed, first.detokenize) == (1.1, 3, False)
    assert (greedy.top_k, greedy.temperature, greedy.end_id, greedy.stop_token_ids) == (1, None, NO_END, None)


def test_a_sampler_that_ignores_the_penalty_is_found_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the table were wrong about a release."""

    def with_the_default_sampler(version: str) -> Release:
        return replace(release_of(version), sampler={})

    monkeypatch.setattr("speech_lm.engines.tensorrt_llm.release_of", with_the_default_sampler)
    with (
        installed("1.2.1", speak) as library,
        pytest.raises(EngineError, match=r"repetition penalty has no effect.*1\.2\.1.*default sampler"),
    ):
        run(started(tmp_path))
    assert library.llms[0].shut_down


def test_where_nothing_is_repeated_the_penalty_cannot_be_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        await (await started(tmp_path)).close()

    with installed("1.2.1", lambda _prompt, said: len(said)), caplog.at_level(logging.WARNING):
        run(work())
    assert "could not be seen" in caplog.text


@pytest.mark.parametrize(
    ("version", "message"), [("0.21.0", r"0\.21\.0 is too old: needs 1\.0\.0rc4 to 1\.4"), ("main", "calls its version 'main'")]
)
def test_releases_that_it_does_not_know_are_refused(version: str, message: str, tmp_path: Path) -> None:
    with installed(version, speak), pytest.raises(EngineError, match=message):
        run(started(tmp_path))


def test_a_newer_release_is_tried_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert release_of("1.6.0").since == "1.3.0rc26"
    assert "newer than 1.4" in caplog.text


def test_without_the_library_the_message_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"cannot be imported.*-trtllm-python-py3 images"):
        run(started(tmp_path))


def test_a_failed_load_is_told(tmp_path: Path) -> None:
    async def work(library: Library) -> None:
        library.load_failure = RuntimeError("CUDA out of memory")
        await started(tmp_path)

    with installed("1.2.1", speak) as library, pytest.raises(EngineError, match="CUDA out of memory"):
        run(work(library))


def test_abort_ends_one_generation_and_frees_it_in_the_library(tmp_path: Path) -> None:
    async def work(library: Library) -> None:
        engine = await started(tmp_path)
        one, other = (engine.submit([0, start], replace(SAMPLING, max_tokens=4000)) for start in (1000, 100))
        async for _ in one:
            one.abort()
            one.abort()
        assert one.finish_reason == "cancelled"
        assert (await hear(other)).finish_reason == "stop"
        assert all(result.finished for result in library.llms[0].results)
        await engine.close()

    def endless(prompt: Sequence[int], said: Sequence[int]) -> int:
        return prompt[-1] + 1 + len(said) if prompt[-1] == 1000 else speak(prompt, said)

    with installed("1.2.1", endless) as library:
        run(work(library))


def test_a_refused_request_costs_itself_only(tmp_path: Path) -> None:
    async def work() -> None:
        engine = await started(tmp_path)
        prompt: Any = ["x"]
        assert "refused" in str((await hear(engine.submit(prompt, SAMPLING))).error)
        assert (await hear(engine.submit([1, 100], SAMPLING))).finish_reason == "stop"
        await engine.close()

    with installed("1.2.1", speak):
        run(work())


@pytest.mark.parametrize("fatal", [False, True])
def test_a_failing_step_reaches_every_reader(fatal: bool, tmp_path: Path) -> None:
    async def work(library: Library) -> None:
        engine = await started(tmp_path)
        generations = [engine.submit([1, 100], SAMPLING) for _ in range(3)]
        library.failure = RuntimeError("worker died") if fatal else RequestError("out of blocks")
        heard = [await hear(generation) for generation in generations]
        assert all(h.error is not None for h in heard)
        library.failure = None
        later = await hear(engine.submit([1, 100], SAMPLING))
        if fatal:
            assert "must be restarted" in str(later.error)
        else:
            assert later.finish_reason == "stop"
        await engine.close()

    with installed("1.2.1", speak) as library:
        run(work(library))


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    async def work(library: Library) -> None:
        engine = await started(tmp_path)
        running = engine.submit([1, 100], replace(SAMPLING, max_tokens=4000))
        await engine.close()
        assert (await hear(running)).finish_reason == "cancelled"
        assert library.llms[0].shut_down
        assert "closed" in str((await hear(engine.submit([1, 100], SAMPLING))).error)

    with installed("1.2.1", lambda prompt, said: 7 if list(prompt) == [0] else 1000 + len(said)) as library:
        run(work(library))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batchsize: 8", "unknown key 'max_batchsize'; known are tensor_parallel_size, "),
        ("max_batch_size: true", "max_batch_size must be int, not True"),
        ("block_reuse: 1", "block_reuse must be bool, not 1"),
        ("max_seq_len: 4", "max_seq_len must be at least 16, not 4"),
        ("kv_cache_fraction: 1", "kv_cache_fraction must lie between 0 and 1"),
        ("kv_cache_dtype: int4", "kv_cache_dtype must be one of auto, fp8, not 'int4'"),
        ("- a", "must hold keys and values"),
        ("a: [", "is not YAML"),
    ],
)
def test_engine_yaml_is_strict(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "engine.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"engine\.yaml") as caught:
        load_engine_config(tmp_path)
    assert message in str(caught.value)


def test_engine_yaml_may_be_absent_or_empty(tmp_path: Path) -> None:
    assert load_engine_config(tmp_path) == EngineConfig()
    (tmp_path / "engine.yaml").write_text("# nothing yet\n")
    assert load_engine_config(tmp_path) == EngineConfig()
    assert kv_cache_dtype(EngineConfig(), tmp_path) == "auto"
    assert kv_cache_dtype(EngineConfig(kv_cache_dtype="fp8"), tmp_path) == "fp8"
