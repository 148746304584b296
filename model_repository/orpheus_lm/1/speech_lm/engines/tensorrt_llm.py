"""TensorRT-LLM's `LLM` (its PyTorch backend) as an engine: token ids in, token ids out.

The library's own workers run the model in processes of their own; what happens here is one asynchronous loop over each generation's
updates. Not run on a GPU yet: tests drive it through a fake of the library that refuses what the library refuses
(tests/support/fake_tensorrt_llm.py).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .base import EngineError, EngineOptions, Sampling
from .generation import FilledGeneration
from .tensorrt_llm_config import EngineConfig, kv_cache_dtype, load_engine_config
from .tensorrt_llm_versions import ENVIRONMENT, Release, release_of

log = logging.getLogger(__name__)

CLOSE_WITHIN_S = 10.0
NO_END = -1
"""An end id that no token has: generate on to max_tokens."""
PROBE_TOKENS, PROBE_PENALTY = 64, 10.0
REASONS = {"stop": "stop", "length": "length", "cancelled": "cancelled"}


class TensorRtLlmEngine:
    """folder: a Hugging Face checkpoint, quantized by NVIDIA ModelOpt or not, with `engine.yaml` beside it. One event loop for all calls.

    A failure of the library fails every running generation and all later ones: its workers do not come back, so the server has to be
    restarted (docs/tensorrt_llm.md).
    """

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder, self._options = folder, options
        self._config = EngineConfig()
        self._api: Any = None
        self._llm: Any = None
        self._failure: EngineError | None = EngineError("the engine has not been started")
        self._readers: dict[asyncio.Task[None], FilledGeneration] = {}

    @property
    def max_context_tokens(self) -> int | None:
        return self._config.max_seq_len

    async def start(self) -> None:
        try:
            self._config = load_engine_config(self._folder)
            release = self._import()
            self._llm = await asyncio.to_thread(self._load, release)
        except Exception as error:
            raise EngineError(f"TensorRT-LLM cannot serve {self._folder}: {error}") from error
        self._failure = None
        try:
            await self._check_penalty()
            await self._warm_up()
        except BaseException:
            await self.close()
            raise

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling) -> FilledGeneration:
        if self._failure is not None:
            generation = FilledGeneration(lambda: None)
            generation.fail(self._failure)
            return generation
        seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        first, *others = sorted(sampling.stop_ids) or [NO_END]
        chosen: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if sampling.top_k:
            chosen["top_k"] = sampling.top_k
        if sampling.temperature == 0:
            chosen = {"top_k": 1}
        return self._generate(
            prompt_ids, max_tokens=sampling.max_tokens, end_id=first, stop_token_ids=others or None, seed=seed,
            repetition_penalty=sampling.repetition_penalty, **chosen,
        )  # fmt: skip

    async def close(self) -> None:
        self._failure = EngineError("the engine has been closed")
        readers = dict(self._readers)
        for generation in readers.values():
            generation.abort()
        if readers:
            _, late = await asyncio.wait(readers, timeout=CLOSE_WITHIN_S)
            for reader in late:
                reader.cancel()
        if self._llm is not None:
            llm, self._llm = self._llm, None
            await asyncio.to_thread(llm.shutdown)

    def _import(self) -> Release:
        os.environ.update(ENVIRONMENT)
        try:
            importlib.import_module("tensorrt_llm.llmapi")
            self._api = importlib.import_module("tensorrt_llm")
        except ImportError as error:
            raise RuntimeError(f"tensorrt_llm cannot be imported ({error}); it comes with NVIDIA's -trtllm-python-py3 images") from error
        return release_of(self._api.__version__)

    def _load(self, release: Release) -> Any:
        """Blocks for as long as the weights take."""
        config, llmapi = self._config, self._api.llmapi
        batch = config.max_batch_size or self._options.max_streams
        graphs = llmapi.CudaGraphConfig(enable_padding=config.cuda_graph_padding, max_batch_size=batch) if config.cuda_graphs else None
        return self._api.LLM(
            model=str(self._folder),
            skip_tokenizer_init=True,
            dtype=config.dtype,
            tensor_parallel_size=config.tensor_parallel_size,
            max_batch_size=batch,
            max_num_tokens=max(config.max_num_tokens, batch),
            max_seq_len=config.max_seq_len,
            enable_chunked_prefill=config.chunked_prefill,
            kv_cache_config=llmapi.KvCacheConfig(
                free_gpu_memory_fraction=config.kv_cache_fraction,
                dtype=kv_cache_dtype(config, self._folder),
                enable_block_reuse=config.block_reuse,
            ),
            cuda_graph_config=graphs,
            stream_interval=config.stream_interval or release.stream_interval,
            **release.sampler,
        )

    def _generate(self, prompt_ids: Sequence[int], **parameters: Any) -> FilledGeneration:
        """generate_async returns at once, and must be called where an event loop runs."""
        try:
            sampling = self._api.SamplingParams(detokenize=False, **parameters)
            result: Any = self._llm.generate_async(list(prompt_ids), sampling_params=sampling, streaming=True)
        except Exception as error:
            generation = FilledGeneration(lambda: None)
            generation.fail(EngineError(f"the request was refused: {error}"))
            return generation
        generation = FilledGeneration(result.abort)
        reader = asyncio.get_running_loop().create_task(self._read(result, generation))
        self._readers[reader] = generation
        reader.add_done_callback(self._readers.pop)
        return generation

    async def _read(self, result: Any, generation: FilledGeneration) -> None:
        """To the end, also after an abort: the library frees a request when its last update has been read."""
        seen = 0
        try:
            async for _ in result:  # the same object each time, grown
                ids: list[int] = result.outputs[0].token_ids
                if len(ids) > seen:
                    generation.push(ids[seen:])
                    seen = len(ids)
            reason = result.outputs[0].finish_reason
            if reason in REASONS:
                generation.finish(REASONS[reason])
            else:
                generation.fail(EngineError(f"TensorRT-LLM ended the generation with {reason!r}"))
        except Exception as error:
            generation.fail(EngineError(f"TensorRT-LLM failed: {error}"))
            if type(error).__name__ != "RequestError":  # that one concerns this request alone (tensorrt_llm/executor/utils.py)
                self._die(error)

    def _die(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = EngineError(f"TensorRT-LLM failed: {error}; the server must be restarted")
            log.error("%s", self._failure)
        for generation in self._readers.values():
            generation.fail(self._failure)

    async def _check_penalty(self) -> None:
        """A sampler that ignores the penalty makes Orpheus stammer, and says nothing. Raises EngineError."""
        plain, punished = [await self._greedy(penalty) for penalty in (1.0, PROBE_PENALTY)]
        if plain != punished:
            return
        if len(set(plain)) < len(plain):
            version = self._api.__version__
            sampler = dict(release_of(version).sampler) or "its default sampler"
            raise EngineError(
                f"the repetition penalty has no effect: a penalty of {PROBE_PENALTY} gives the same repetitive ids as none; "
                f"TensorRT-LLM {version} was started with {sampler}"
            )
        log.warning("whether the repetition penalty has an effect could not be seen: nothing was repeated without it")

    async def _greedy(self, penalty: float) -> list[int]:
        ids: list[int] = []
        generation = self._generate([0], max_tokens=PROBE_TOKENS, end_id=NO_END, top_k=1, repetition_penalty=penalty)
        async for more in generation:
            ids += more
        return ids

    async def _warm_up(self) -> None:
        """As many generations at once as there may be."""
        length = min(PROBE_TOKENS, self._config.max_seq_len - 1)
        batch = self._config.max_batch_size or self._options.max_streams
        generations = [self._generate([0], max_tokens=length, end_id=NO_END, temperature=1.0, top_p=0.9, seed=n) for n in range(batch)]
        for generation in generations:
            async for _ in generation:
                pass
