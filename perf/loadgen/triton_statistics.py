"""What Triton itself counted between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import tritonclient.grpc as triton

MODELS = ("orpheus_lm", "snac_decoder")


@dataclass(frozen=True)
class Counts:
    """Of one model. executions: batches; queue_ns, compute_ns: of all its requests together."""

    requests: int = 0
    executions: int = 0
    queue_ns: int = 0
    compute_ns: int = 0


def counts(url: str, models: tuple[str, ...] = MODELS) -> dict[str, Counts]:
    """Since the models were loaded; a model that the server does not have is left out."""
    with triton.InferenceServerClient(url) as client:
        page: dict[str, list[dict[str, Any]]] = cast(Any, client.get_inference_statistics(as_json=True))
    return {model["name"]: _counts(model) for model in page.get("model_stats", []) if model["name"] in models}


def difference(before: dict[str, Counts], after: dict[str, Counts]) -> dict[str, dict[str, float]]:
    """Of each model: requests, mean batch, and milliseconds of a request in the queue and in computation."""
    report: dict[str, dict[str, float]] = {}
    for name, now in after.items():
        then = before.get(name, Counts())
        requests, executions = now.requests - then.requests, now.executions - then.executions
        if requests and executions:
            report[name] = {
                "requests": requests,
                "mean_batch": round(requests / executions, 3),
                "queue_ms": round((now.queue_ns - then.queue_ns) / requests / 1e6, 3),
                "compute_ms": round((now.compute_ns - then.compute_ns) / requests / 1e6, 3),
            }
    return report


def _counts(model: dict[str, Any]) -> Counts:
    # Numbers of 64 bits are strings in protobuf's JSON, and zeros are left out.
    stats = model.get("inference_stats", {})

    def time_ns(name: str) -> int:
        return int(stats.get(name, {}).get("ns", 0))

    return Counts(int(model.get("inference_count", 0)), int(model.get("execution_count", 0)), time_ns("queue"), time_ns("compute_infer"))
