"""Find the tritonserver to run, and make the one inside the `nvidia-pytriton` wheel runnable on an ordinary model repository.

That wheel carries a whole tritonserver with its python backend, made for pytriton's own models. Two things are missing for ours: the
backend's stub process for the running Python has to lie beside `libtriton_python.so`, and the loader has to find the wheel's libraries and
Python's own. The first is done in a copy of the backend's folder inside the virtual environment (3 MB with the stub).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SERVER_VARIABLE = "TRITONSERVER"


class NoServerError(RuntimeError):
    """There is no tritonserver to run here; the message says what to do."""


@dataclass(frozen=True)
class Tritonserver:
    """Ready to run: the executable, its backends (None: its own default), and where its processes find Python and libraries."""

    executable: Path
    backend_directory: Path | None = None
    executable_path: tuple[Path, ...] = ()
    library_path: tuple[Path, ...] = ()


def find_tritonserver(environment: Mapping[str, str] = os.environ) -> Tritonserver:
    """The server that TRITONSERVER names, else the system's, else the embedded one.

    Raises NoServerError.
    """
    named = environment.get(SERVER_VARIABLE)
    if named:
        found = shutil.which(named, path=environment.get("PATH"))
        if found is None:
            raise NoServerError(f"{SERVER_VARIABLE} names {named!r}, which is no executable file")
        return Tritonserver(Path(found))
    system = shutil.which("tritonserver", path=environment.get("PATH"))
    if system is not None:
        return Tritonserver(Path(system))
    return embedded_tritonserver()


def embedded_tritonserver() -> Tritonserver:
    """The server in the `nvidia-pytriton` wheel of the running Python, its backend folder prepared on first use. Raises NoServerError."""
    package = _wheel_folder()
    _check_numpy()
    _check_prefix()
    server = package / "tritonserver"
    stub = _stub(server)
    return Tritonserver(
        executable=server / "bin" / "tritonserver",
        backend_directory=_prepared_backends(server / "backends", stub),
        executable_path=(Path(sys.executable).parent,),
        library_path=(package.parent / "nvidia_pytriton.libs", _libpython_folder()),
    )


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise NoServerError(
            "no tritonserver on PATH, and the embedded one is not installed: "
            "`make serve` installs it, and so does pip install -r requirements/server.txt"
        )
    return Path(spec.origin).parent


def _check_numpy() -> None:
    version = importlib.metadata.version("numpy")
    if int(version.split(".")[0]) >= 2:
        raise NoServerError(
            f"the embedded tritonserver needs NumPy below 2, and this is {version}: with it every output tensor would silently be empty. "
            'pip install "numpy<2"'
        )


def _check_prefix() -> None:
    """The stub's Python reads paths as ASCII, whatever the locale, and would die in silence while the server waits for it."""
    if not sys.prefix.isascii():
        raise NoServerError(f"the embedded tritonserver's Python cannot live in {sys.prefix!r}: only ASCII characters, please")


def _stub(server: Path) -> Path:
    stubs = server / "python_backend_stubs"
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    stub = stubs / running / "triton_python_backend_stub"
    if platform.python_implementation() != "CPython" or not stub.is_file():
        known = ", ".join(sorted((folder.name for folder in stubs.iterdir()), key=lambda name: [int(part) for part in name.split(".")]))
        raise NoServerError(
            f"the embedded tritonserver has no python backend for {platform.python_implementation()} {running} on {platform.machine()}; "
            f"it has one for CPython {known}"
        )
    return stub


def _libpython_folder() -> Path:
    """Where the loader finds the libpython that the stub process links to. Raises NoServerError when there is none."""
    name = f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    libdir = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
    for folder in (libdir, libdir / multiarch, Path("/usr/lib") / multiarch, Path("/usr/lib64"), Path("/usr/local/lib")):
        if (folder / name).is_file():
            return folder
    raise NoServerError(
        f"the embedded tritonserver's python backend needs the shared library {name}, which is not installed: "
        f"on Debian and Ubuntu `apt install {name.split('.so')[0]}`; with pyenv build Python with --enable-shared"
    )


def _prepared_backends(source: Path, stub: Path) -> Path:
    """A copy of the wheel's backend folder with the stub in it; made once per environment, complete or not there at all."""
    version = importlib.metadata.version("nvidia-pytriton")
    target = Path(sys.prefix) / "share" / "tritonserver" / f"{version}-{sys.implementation.cache_tag}"
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise NoServerError(f"cannot write {target.parent}: {error.strerror}; use a virtual environment of your own") from None
    try:
        shutil.copytree(source, draft, dirs_exist_ok=True)
        shutil.copy2(stub, draft / "python")
        draft.chmod(0o755)
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # somebody else's copy, just as good, may have come first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target
