"""TensorRT-LLM as far as the engine meets it: the same names and defaults by release (tensorrt_llm_api.json, with sources), the same
refusals, results that grow in place. It speaks tokens that the test chooses.

    with installed("1.2.1") as library: ...      library.llms[-1].arguments, .shut_down, .results
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

API: dict[str, Any] = json.loads(Path(__file__).with_name("tensorrt_llm_api.json").read_text())
MODULES = ("tensorrt_llm", "tensorrt_llm.llmapi")
Speak = Callable[[Sequence[int], Sequence[int]], int]
"""(prompt, said so far) -> the likeliest next token."""


class RequestError(RuntimeError):
    """tensorrt_llm.executor.utils.RequestError: one request failed."""


def refuse_unknown(kind: str, given: dict[str, Any], known: Sequence[str] | dict[str, Any]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{kind}: extra inputs are not permitted: {unknown}")


class Options:
    """A strict model with defaults, like its pydantic ones."""

    kind = ""

    def __init__(self, **given: Any) -> None:
        refuse_unknown(self.kind, given, API[self.kind])
        self.__dict__.update(API[self.kind] | given)


class KvCacheConfig(Options):
    kind = "kv_cache_config"


class CudaGraphConfig(Options):
    kind = "cuda_graph_config"


class SamplingParams(Options):
    kind = "sampling_params"


@dataclass
class CompletionOutput:
    token_ids: list[int] = field(default_factory=list[int])
    finish_reason: str | None = None


class RequestOutput:
    """The same object at every step, grown."""

    def __init__(self, llm: LLM, prompt: Sequence[int], sampling: Any) -> None:
        self.outputs = [CompletionOutput()]
        self.finished = self.aborted = False
        self._llm, self._prompt, self._sampling = llm, list(prompt), sampling

    def abort(self) -> None:
        self.aborted = True

    def __aiter__(self) -> RequestOutput:
        return self

    async def __anext__(self) -> RequestOutput:
        if self.finished:
            raise StopAsyncIteration
        for _ in range(self._llm.arguments["stream_interval"] if self.outputs[0].token_ids else 1):
            await asyncio.sleep(0)
            self._step()
            if self.finished:
                break
        return self

    def _step(self) -> None:
        said, output = self.outputs[0].token_ids, self.outputs[0]
        if self.aborted:
            self._finish("cancelled")
        elif len(said) >= self._sampling.max_tokens or len(self._prompt) + len(said) >= self._llm.arguments["max_seq_len"]:
            self._finish("length")
        else:
            if self._llm.library.failure is not None:
                raise self._llm.library.failure
            token = self._llm.library.speak(self._prompt, said)
            punished = self._llm.penalizes and (self._sampling.repetition_penalty or 1.0) > 1.0
            output.token_ids.append(token + 1 if punished and token in said else token)
            if token == self._sampling.end_id or token in (self._sampling.stop_token_ids or []):
                self._finish("stop")
            elif len(said) == self._sampling.max_tokens:
                self._finish("length")

    def _finish(self, reason: str) -> None:
        self.finished, self.outputs[0].finish_reason = True, reason


class LLM:
    def __init__(self, library: Library, **given: Any) -> None:
        release = library.version[:3]
        known = API["llm"]["every"] + API["llm"].get(release, API["llm"]["1.1"] if release == "1.2" else API["llm"]["1.3"])
        refuse_unknown("LLM", given, known)
        if library.takes_trtllm_sampler is False and given.get("sampler_type") == "TRTLLMSampler":
            raise ValueError("sampler_type: Input should be 'TorchSampler' or 'auto'")
        if library.load_failure is not None:
            raise library.load_failure
        self.library, self.shut_down = library, False
        self.arguments: dict[str, Any] = {"stream_interval": 1} | given
        asked = given.get("enable_trtllm_sampler") or given.get("sampler_type") == "TRTLLMSampler"
        self.penalizes = bool(asked) or not library.takes_trtllm_sampler
        self.results: list[RequestOutput] = []

    def generate_async(self, inputs: Any, **given: Any) -> RequestOutput:
        refuse_unknown("generate_async", given, API["generate_async"])
        asyncio.get_running_loop()  # without one the result cannot be iterated over
        if self.shut_down:
            raise RuntimeError("the LLM has been shut down")
        sampling = given["sampling_params"]
        if not isinstance(sampling, SamplingParams):
            raise TypeError("The sampling_params must be type SamplingParams or None")
        if sampling.__dict__["end_id"] is None and self.arguments["skip_tokenizer_init"]:
            raise ValueError(
                "tokenizer is required to reset end_id if it is None, or you can explicitly specify the end_id for sampling_params"
            )
        if not isinstance(inputs, list) or not all(isinstance(i, int) for i in inputs):  # pyright: ignore[reportUnknownVariableType]
            raise TypeError("The inputs must be type str or list of int")
        assert given["streaming"]
        self.results.append(RequestOutput(self, inputs, sampling))  # pyright: ignore[reportUnknownArgumentType]
        return self.results[-1]

    def shutdown(self) -> None:
        self.shut_down = True


@dataclass
class Library:
    """failure: raised by the next step of every generation; load_failure: by LLM. takes_trtllm_sampler: whether there still is one, and the
    default one ignores the repetition penalty."""

    version: str
    speak: Speak
    takes_trtllm_sampler: bool
    failure: Exception | None = None
    load_failure: Exception | None = None
    llms: list[LLM] = field(default_factory=list[LLM])


def install(version: str, speak: Speak, takes_trtllm_sampler: bool = True) -> Library:
    """From now on `import tensorrt_llm` finds the fake."""
    library = Library(version, speak, takes_trtllm_sampler)
    modules = {name: ModuleType(name) for name in MODULES}
    top: Any = modules["tensorrt_llm"]
    llmapi: Any = modules["tensorrt_llm.llmapi"]

    def make(**given: Any) -> LLM:
        library.llms.append(LLM(library, **given))
        return library.llms[-1]

    top.__version__, top.LLM, top.SamplingParams, top.llmapi = version, make, SamplingParams, llmapi
    llmapi.KvCacheConfig, llmapi.CudaGraphConfig = KvCacheConfig, CudaGraphConfig
    sys.modules.update(modules)
    return library


@contextmanager
def installed(version: str, speak: Speak, takes_trtllm_sampler: bool = True) -> Generator[Library]:
    """The same while the block runs."""
    try:
        yield install(version, speak, takes_trtllm_sampler)
    finally:
        for name in MODULES:
            del sys.modules[name]
