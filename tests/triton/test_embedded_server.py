"""The embedded tritonserver and its Python, on a model of two lines: independent of everything that the repository serves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from embedded.running import RunningServer
from support.server import server_python

CONFIG = """
name: "echo"
backend: "python"
max_batch_size: 0
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "ECHO" data_type: TYPE_STRING dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
MODEL = """
import os, sys
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]
            values = [text, sys.prefix.encode(), os.environ["WORD"].encode(), np.__version__.encode()]
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("ECHO", np.array(values, object))]))
        return answers
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("répository with blanks & more")
    (folder / "echo" / "1").mkdir(parents=True)
    (folder / "echo" / "config.pbtxt").write_text(CONFIG)
    (folder / "echo" / "1" / "model.py").write_text(MODEL)
    return folder


@pytest.fixture(scope="module")
def echo(repository: Path) -> Iterator[RunningServer]:
    with RunningServer(repository, python=server_python(), environment={"WORD": "environment"}) as running:
        yield running


def ask(url: str, text: str) -> list[str]:
    tensor = triton_grpc.InferInput("TEXT", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode()], object))
    with triton_grpc.InferenceServerClient(url) as client:
        result: Any = client.infer("echo", [tensor], client_timeout=20)
    return [value.decode() for value in result.as_numpy("ECHO")]


def test_models_run_in_the_environment_that_serves(echo: RunningServer) -> None:
    text, prefix, environment, numpy = ask(echo.grpc_url, "Grüße 東京")
    assert text == "Grüße 東京", "UTF-8 goes through whole"
    assert Path(prefix) == server_python().parent.parent
    assert environment == "environment"
    assert numpy.startswith("1."), "with NumPy 2 tensors would come out empty"


def test_metrics_are_read_by_name(echo: RunningServer) -> None:
    name = 'nv_inference_request_success{model="echo",version="1"}'
    before = echo.metrics()[name]
    ask(echo.grpc_url, "counted")
    deadline = time.monotonic() + 10
    while echo.metrics()[name] == before and time.monotonic() < deadline:  # Triton counts after it has answered
        time.sleep(0.05)
    assert echo.metrics()[name] > before


def test_two_servers_run_side_by_side(echo: RunningServer, repository: Path) -> None:
    with RunningServer(repository, python=server_python(), environment={"WORD": "second"}) as second:
        assert (ask(second.grpc_url, "x")[2], ask(echo.grpc_url, "x")[2]) == ("second", "environment")


def test_nothing_is_left_of_a_stopped_server(repository: Path) -> None:
    with RunningServer(repository, python=server_python(), environment={"WORD": "x"}) as running:
        processes = [Path(f"/proc/{pid}") for pid in [running.pid, *running.stub_pids()]]
        assert len(processes) == 2
        assert all(process.exists() for process in processes)
    deadline = time.monotonic() + 10
    while any(process.exists() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(process.exists() for process in processes)
    assert running.log_text()
