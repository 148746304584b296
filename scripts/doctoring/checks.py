"""What the facts mean: one verdict a check, each with what to do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from speech_lm.engines.tensorrt_llm_versions import release_of

from doctoring.facts import Facts
from doctoring.memory import LlamaShape, gpu_budget

FP8_COMPUTE = 8.9
"""Ada; the first with FP8 products (NVIDIA's CUDA programming guide, compute capabilities)."""
LEAST_SHARED_MEMORY = 64 << 20
"""Each model's stub takes 8 MB and grows with what is on its way; Docker's default is exactly this."""
GOOD_SHARED_MEMORY = 1 << 30


@dataclass(frozen=True)
class Plan:
    """What is to be served. segment_s: the longest segment counted on, for the key-value cache."""

    lm_engine: str = "openvino"
    codec_engine: str = "openvino"
    codec_device: str = "cpu"
    max_streams: int = 32
    segment_s: float = 15.0


@dataclass(frozen=True)
class Verdict:
    """level: ok, warn or fail."""

    check: str
    level: str
    text: str


def judge(facts: Facts, plan: Plan) -> list[Verdict]:
    return [verdict for check in CHECKS for verdict in check(facts, plan)]


def python(facts: Facts, _plan: Plan) -> Iterator[Verdict]:
    shown = ".".join(map(str, facts.python))
    good = (3, 10) <= facts.python <= (3, 12)
    yield Verdict("python", "ok" if good else "fail", shown if good else f"{shown}; needs 3.10 to 3.12: make PYTHON=python3.11 ...")


def server(facts: Facts, _plan: Plan) -> Iterator[Verdict]:
    yield Verdict("tritonserver", "ok" if facts.server else "fail", facts.server or facts.server_problem)


def numpy(facts: Facts, _plan: Plan) -> Iterator[Verdict]:
    version = facts.packages.get("numpy")
    if version is None:
        yield Verdict("numpy", "fail", "not installed")
    elif "nvidia-pytriton" in facts.packages and int(version.split(".")[0]) >= 2:
        yield Verdict("numpy", "fail", f"{version}: with the embedded tritonserver every output would be empty; pip install 'numpy<2'")
    else:
        yield Verdict("numpy", "ok", version)


def language_model(facts: Facts, plan: Plan) -> Iterator[Verdict]:
    if facts.voice_problem:
        yield Verdict("voice", "fail", facts.voice_problem)
        return
    if plan.lm_engine == "openvino":
        wanted, maker = "openvino_model.xml", "scripts/export_lm.py"
        present = wanted in facts.voice_files
    else:
        wanted, maker = "*.safetensors", "scripts/fetch_weights.py"
        present = any(name.endswith(".safetensors") for name in facts.voice_files)
    yield Verdict("voice", "ok" if present else "fail", "complete" if present else f"the folder holds no {wanted}: {maker} makes it")
    if facts.voice_frontend == "phonemes" and "hibari-tts" not in facts.packages:
        yield Verdict("frontend", "fail", "the voice reads phonemes, and hibari-tts is not installed")


def lm_engine(facts: Facts, plan: Plan) -> Iterator[Verdict]:
    package = {"openvino": "openvino-genai", "tensorrt_llm": "tensorrt-llm"}.get(plan.lm_engine)
    if package is None:
        return
    version = facts.packages.get(package)
    if version is None:
        where = "pip install -r requirements/server.txt" if package == "openvino-genai" else "NVIDIA's -trtllm-python-py3 images bring it"
        yield Verdict("language model engine", "fail", f"{package} is not installed: {where}")
        return
    if package == "tensorrt-llm":
        try:
            release_of(version)
        except ValueError as error:
            yield Verdict("language model engine", "fail", str(error))
            return
    yield Verdict("language model engine", "ok", f"{package} {version}")


def codec(facts: Facts, plan: Plan) -> Iterator[Verdict]:
    if facts.codec_problem:
        yield Verdict("codec", "fail", facts.codec_problem)
        return
    wanted = ("pytorch_model.bin", "model.safetensors") if plan.codec_engine == "torch" else ("decoder.onnx",)
    if not set(wanted) & set(facts.codec_files):
        yield Verdict("codec", "fail", f"the folder holds no {' or '.join(wanted)} for the engine {plan.codec_engine}")
    else:
        yield Verdict("codec", "ok", "complete")
    packages = {"openvino": ("openvino-genai",), "torch": ("torch",), "onnxruntime": ("onnxruntime", "onnxruntime-gpu")}[plan.codec_engine]
    if plan.codec_engine == "onnxruntime" and plan.codec_device != "cpu":
        packages = ("onnxruntime-gpu",)
    if not set(packages) & set(facts.packages):
        yield Verdict("codec engine", "fail", f"{' or '.join(packages)} is not installed")
    if not facts.voice_problem and facts.voice_codebook != facts.codec_codebook:
        spoken, read = facts.voice_codebook, facts.codec_codebook
        text = f"the language model speaks {spoken} codes a slot, the codec reads {read}: they do not belong together"
        yield Verdict("codebook", "fail", text)


def gpu(facts: Facts, plan: Plan) -> Iterator[Verdict]:
    if plan.lm_engine != "tensorrt_llm" and plan.codec_device == "cpu":
        return
    if not facts.gpus:
        yield Verdict("gpu", "fail", "nvidia-smi shows no GPU: is the driver installed, and was the container started with --gpus?")
        return
    for card in facts.gpus:
        fp8 = card.compute >= FP8_COMPUTE
        level = "fail" if facts.voice_quantized and not fp8 else "ok"
        text = f"{card.name}, driver {card.driver}, compute {card.compute}"
        yield Verdict("gpu", level, text if level == "ok" else f"{text}: an FP8 checkpoint needs {FP8_COMPUTE} or higher")


def memory(facts: Facts, plan: Plan) -> Iterator[Verdict]:
    if not facts.voice_config:
        return
    shape = LlamaShape.of(facts.voice_config)
    if plan.lm_engine == "tensorrt_llm" and facts.gpus:
        width = 1 if facts.voice_quantized else 2
        budget = gpu_budget(facts.gpus[0].total_bytes, facts.voice_weight_bytes, shape, width, plan.max_streams, plan.segment_s)
        level = "ok" if budget.left > 0 else "fail"
        yield Verdict("memory", level, f"{plan.max_streams} streams: {budget.text()}" + ("" if level == "ok" else "; lower max_streams"))
    elif plan.lm_engine == "openvino":
        fits = 2 * facts.voice_weight_bytes < facts.memory_bytes
        text = f"weights {facts.voice_weight_bytes / 1e9:.2f} of {facts.memory_bytes / 1e9:.1f} GB"
        yield Verdict("memory", "ok" if fits else "warn", text if fits else f"{text}: loading may need twice the weights")


def shared_memory(facts: Facts, _plan: Plan) -> Iterator[Verdict]:
    size = facts.shared_memory_bytes
    level = "fail" if size < LEAST_SHARED_MEMORY else "warn" if size < GOOD_SHARED_MEMORY else "ok"
    advice = "" if level == "ok" else "; start the container with --shm-size=1g"
    yield Verdict("shared memory", level, f"/dev/shm has {size / 1e9:.2f} GB{advice}")


def ports(facts: Facts, _plan: Plan) -> Iterator[Verdict]:
    if facts.busy_ports:
        yield Verdict("ports", "warn", f"taken on 127.0.0.1: {', '.join(map(str, facts.busy_ports))}; is a server running already?")
    else:
        yield Verdict("ports", "ok", "free")


CHECKS: tuple[Callable[[Facts, Plan], Iterator[Verdict]], ...] = (
    python, server, numpy, language_model, lm_engine, codec, gpu, memory, shared_memory, ports,
)  # fmt: skip
