"""Finding a tritonserver, and what it is started with. That it runs is what the tests in tests/triton show."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from embedded import installation
from embedded.command import ServerOptions, plain_path, server_arguments, server_environment
from embedded.installation import NoServerError, Tritonserver, find_tritonserver
from embedded.ports import free_ports
from embedded.repository import copy_repository
from embedded.running import SERVE, RunningServer, ServerFailedError
from support.model_config import MODEL_REPOSITORY
from support.programs import executable


def test_a_named_server_wins_over_the_systems(tmp_path: Path) -> None:
    system, named = executable(tmp_path / "bin" / "tritonserver"), executable(tmp_path / "mine")
    assert find_tritonserver({"PATH": str(system.parent)}) == Tritonserver(system)
    assert find_tritonserver({"PATH": str(system.parent), "TRITONSERVER": str(named)}) == Tritonserver(named)


def test_a_named_server_that_is_none_is_an_error() -> None:
    with pytest.raises(NoServerError, match="TRITONSERVER names '/nowhere'"):
        find_tritonserver({"TRITONSERVER": "/nowhere"})


def test_the_embedded_server_is_prepared_once_and_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    server = installation.embedded_tritonserver()
    assert os.access(server.executable, os.X_OK)
    assert server.backend_directory is not None
    python = server.backend_directory / "python"
    assert (python / "libtriton_python.so").is_file()
    assert os.access(python / "triton_python_backend_stub", os.X_OK)
    before = (python / "triton_python_backend_stub").stat().st_mtime_ns, python.stat().st_ino
    assert installation.embedded_tritonserver() == server
    assert ((python / "triton_python_backend_stub").stat().st_mtime_ns, python.stat().st_ino) == before
    assert [entry.name for entry in server.backend_directory.parent.iterdir()] == [server.backend_directory.name], "no draft is left"


def test_numpy_2_is_refused_before_it_empties_every_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        return "2.1.0" if name == "numpy" else "0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(NoServerError, match=r"needs NumPy below 2, and this is 2\.1\.0"):
        installation.embedded_tritonserver()


def test_a_folder_that_the_stub_cannot_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/somewhere/Grüße")
    with pytest.raises(NoServerError, match="only ASCII"):
        installation.embedded_tritonserver()


def test_a_python_without_a_stub_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    with pytest.raises(NoServerError, match=r"no python backend for CPython 3\.99 .* CPython 3\.8, 3\.9, 3\.10"):
        installation.embedded_tritonserver()


def test_what_is_not_wanted_is_switched_off() -> None:
    arguments = server_arguments(Tritonserver(Path("triton")), ServerOptions(Path("models"), grpc_port=5))
    assert {"--allow-http=false", "--allow-metrics=false", "--grpc-port=5", "--grpc-address=127.0.0.1"} <= set(arguments)
    assert not [argument for argument in arguments if argument.startswith(("--http-port", "--metrics-port", "--backend-directory"))]


def test_the_callers_own_paths_are_kept() -> None:
    server = Tritonserver(Path("triton"), Path("backends"), executable_path=(Path("/python"),), library_path=(Path("/own"), Path("/lib")))
    given = {"LD_LIBRARY_PATH": "/a", "PATH": "/c"}
    made = server_environment(server, given)
    assert (made["LD_LIBRARY_PATH"], made["PATH"]) == ("/own:/lib:/a", "/python:/c"), "what the server needs comes first"
    assert given == {"LD_LIBRARY_PATH": "/a", "PATH": "/c"}
    assert server_environment(server, {})["LD_LIBRARY_PATH"] == "/own:/lib", "an empty part would be the current folder"


def test_a_systems_server_keeps_its_environment() -> None:
    made = server_environment(Tritonserver(Path("triton")), {"PATH": "/c"})
    assert (made["PATH"], "LD_LIBRARY_PATH" in made) == ("/c", False)


def test_a_path_that_a_shell_would_split_gets_a_plain_name(tmp_path: Path) -> None:
    folder = tmp_path / "Grüße & $HOME"
    folder.mkdir()
    plain = plain_path(folder)
    assert plain.isascii()
    assert shlex.quote(plain) == plain
    assert Path(plain).samefile(folder)


def test_a_plain_path_stays_as_it_is() -> None:
    assert plain_path(Path("/usr/share")) == "/usr/share"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_free_ports_are_different(host: str) -> None:
    assert len(set(free_ports(5, host))) == 5


def test_free_ports_of_an_address_of_version_6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    assert len(set(free_ports(2, "::1"))) == 2


def test_a_server_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    """The program is killed, so that nothing of its own can stop the server."""
    server = executable(tmp_path / "server", f"echo $$ > {shlex.quote(str(tmp_path))}/pid; exec sleep 600")
    program = "import sys; from embedded.running import RunningServer; RunningServer(environment={'TRITONSERVER': sys.argv[1]}).start()"
    environment = os.environ | {"PYTHONPATH": str(SERVE.parent), "TMPDIR": str(tmp_path)}
    starter = subprocess.Popen([sys.executable, "-c", program, str(server)], env=environment)
    try:
        assert _within_s(30, lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        pid = int((tmp_path / "pid").read_text())
        assert _alive(pid)
    finally:
        starter.kill()
        starter.wait()
    assert _within_s(10, lambda: not _alive(pid))


def test_a_server_whose_program_has_ended_does_not_start() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    serve = subprocess.run([sys.executable, str(SERVE), f"--parent={ended.pid}"], capture_output=True, text=True, check=False)
    assert serve.returncode == 1
    assert serve.stderr == f"serve: process {ended.pid}, for which this server was started, has ended\n"


def test_a_copied_repository_differs_in_the_parameters_alone(tmp_path: Path) -> None:
    copy = copy_repository(MODEL_REPOSITORY, tmp_path / "copy", {"orpheus_lm": {"folder": 'a "b" \\c'}})
    before = (MODEL_REPOSITORY / "orpheus_lm" / "config.pbtxt").read_text().splitlines()
    after = (copy / "orpheus_lm" / "config.pbtxt").read_text().splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [r'parameters { key: "folder" value { string_value: "a \"b\" \\c" } }']


def test_modules_lie_where_the_model_imports_from(tmp_path: Path) -> None:
    module = tmp_path / "scripted.py"
    module.write_text("WORD = 1\n")
    copy = copy_repository(MODEL_REPOSITORY, tmp_path / "copy", modules={"orpheus_lm": [module]})
    assert (copy / "orpheus_lm" / "1" / "scripted.py").read_text() == "WORD = 1\n"
    assert not (copy / "snac_decoder" / "1" / "scripted.py").exists()


def test_an_unknown_parameter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="max_stream"):
        copy_repository(MODEL_REPOSITORY, tmp_path / "copy", {"orpheus_lm": {"max_stream": "1"}})


def test_a_server_that_fails_shows_its_log_and_is_gone(tmp_path: Path) -> None:
    failing = executable(tmp_path / "failing", "echo why it failed; exit 7")
    server = RunningServer(MODEL_REPOSITORY, environment={"TRITONSERVER": str(failing)})
    with pytest.raises(ServerFailedError, match=r"exit status 7 before it was ready(.|\n)*why it failed"):
        server.start()
    assert not server.log_path.exists()
    assert "why it failed" in server.log_text()


def test_a_server_that_never_gets_ready_is_stopped_with_its_children(tmp_path: Path) -> None:
    hanging = executable(tmp_path / "hanging", f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; wait; wait")
    server = RunningServer(
        MODEL_REPOSITORY, environment={"TRITONSERVER": str(hanging)}, ready_timeout_s=1.0, exit_timeout_s=0, stop_grace_s=0.5
    )
    with pytest.raises(ServerFailedError, match="not ready within 1 s"):
        server.start()
    child = int((tmp_path / "child").read_text())
    assert _within_s(10, lambda: not _alive(child))


def _within_s(limit_s: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
