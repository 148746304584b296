"""What is kept of a run of the micro-benchmarks: statistics, and the machine as in every other result."""

from __future__ import annotations

from typing import Any

from loadgen.machine import fingerprint


def pytest_benchmark_update_json(output_json: dict[str, Any]) -> None:
    output_json["machine_info"] = fingerprint()
    output_json.pop("commit_info", None)
    for benchmark in output_json["benchmarks"]:
        del benchmark["stats"]["data"], benchmark["options"]
