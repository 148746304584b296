"""Who reaches the server, and what it keeps to itself."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from embedded.running import RunningServer
from embedded.vitals import processes_of
from orpheus_client import Client, OrpheusError, ServerUnavailable, Tls
from support.server import StartServer

SECRET = "quivering zephyrs"
RESTRICTED = "inference,metadata,model-config,model-repository,shared-memory,statistics,trace,logging"
LISTENING = "0A"  # linux/net/tcp_states.h
MAPPED_IPV4 = "0000000000000000FFFF0000"
"""How /proc/net/tcp6 begins an IPv4 address."""


def listening_addresses(pids: list[int]) -> set[str]:
    """IPv4 and IPv6 addresses, as /proc writes them, of the sockets on which these processes listen."""
    inodes: set[str] = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = f"{link.readlink()}" if link.is_symlink() else ""
            inodes |= {target[len("socket:[") : -1]} if target.startswith("socket:[") else set()
    rows = [line.split() for page in ("tcp", "tcp6") for line in Path(f"/proc/net/{page}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0].removeprefix(MAPPED_IPV4) for row in rows if row[3] == LISTENING and row[9] in inodes}


def test_it_listens_on_this_machine_alone(server: RunningServer) -> None:
    localhost = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
    assert listening_addresses(processes_of(server.pid)) == {localhost}


def test_no_text_is_logged(start_server: StartServer) -> None:
    """Not of what was spoken, and not of what was refused."""
    server = start_server()
    with Client(server.grpc_url) as client:
        client.synthesize(f"The {SECRET}.")
        with pytest.raises(OrpheusError) as caught:
            client.synthesize(f"{SECRET} " * 3000)
        assert SECRET not in f"{caught.value}"
        with pytest.raises(OrpheusError):
            client.synthesize("Hello.", voice=SECRET)
    assert SECRET not in server.log_text()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As in docs/operations.md."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command makes the certificates")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", "server.key", "-out", "server.pem"], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def guarded(start_server: StartServer, certificates: Path) -> RunningServer:
    """TLS, and a token for everything but health."""
    return start_server(
        arguments=[
            "--grpc-use-ssl=true",
            f"--grpc-server-cert={certificates}/server.pem",
            f"--grpc-server-key={certificates}/server.key",
            f"--grpc-restricted-protocol={RESTRICTED}:token=s3cret",
        ]
    )


def test_tls_and_a_token(guarded: RunningServer, certificates: Path) -> None:
    tls = Tls(certificates / "server.pem")
    with Client(guarded.grpc_url, tls=tls, headers={"triton-grpc-protocol-token": "s3cret"}) as client:
        assert client.synthesize("Hello.").finish_reason == "stop"
    for headers in ({}, {"triton-grpc-protocol-token": "guessed"}):
        with Client(guarded.grpc_url, tls=tls, headers=headers) as client, pytest.raises(OrpheusError, match="protocol"):
            client.synthesize("Hello.")
    with Client(guarded.grpc_url) as client, pytest.raises(ServerUnavailable):
        client.synthesize("Hello.")
