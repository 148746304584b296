"""TLS against a real handshake, with certificates made for the test."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from orpheus_client import AsyncClient, Client, ServerUnavailable, Tls
from orpheus_client.cli.main import main
from support.scripted_triton import ScriptedTriton

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command makes the certificates")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """server.pem and client.pem, each its own authority, with their keys."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server", "client"):
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*request, *files], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[ScriptedTriton]:
    """Wants the client's certificate too."""
    key, certificate, client = ((folder / name).read_bytes() for name in ("server.key", "server.pem", "client.pem"))
    credentials = grpc.ssl_server_credentials([(key, certificate)], root_certificates=client, require_client_auth=True)
    with ScriptedTriton(credentials=credentials) as server:
        yield server


def test_mutual_tls(server: ScriptedTriton, folder: Path) -> None:
    tls = Tls(folder / "server.pem", folder / "client.key", folder / "client.pem")
    with Client(server.url, tls=tls) as client:
        assert client.synthesize("hello").finish_reason == "stop"

    async def speak() -> str:
        async with AsyncClient(server.url, tls=tls) as client:
            return (await client.synthesize("hello")).finish_reason

    assert asyncio.run(speak()) == "stop"


@pytest.mark.parametrize("tls", [False, True, "no certificate"])
def test_without_the_right_certificates_there_is_no_connection(server: ScriptedTriton, folder: Path, tls: bool | str) -> None:
    with Client(server.url, tls=Tls(folder / "server.pem") if isinstance(tls, str) else tls) as client, pytest.raises(ServerUnavailable):
        client.synthesize("hello")


def test_tls_on_the_command_line(server: ScriptedTriton, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--tls-ca", str(folder / "server.pem"), "--tls-key", str(folder / "client.key"), "--tls-cert", str(folder / "client.pem")]
    assert main(["voices", "--url", server.url, *files]) == 0
    assert capsys.readouterr().out.split() == ["ada", "bob"]
    assert main(["voices", "--url", server.url, "--tls-ca", str(folder / "absent.pem")]) == 1
    assert "absent.pem" in capsys.readouterr().err
