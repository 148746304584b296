"""Containers and balancer as far as they can be looked at without Docker: syntax, hadolint, and agreement with the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import snac_codec.metrics
import speech_lm.metrics
import yaml

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
YAML_FILES = sorted([*DOCKER.rglob("*.y*ml"), *(ROOT / "deploy").rglob("*.yaml")])
OURS = {*speech_lm.metrics.FAMILIES, *snac_codec.metrics.FAMILIES}
TRITONS = {"nv_inference_queue_duration_us", "nv_inference_request_success", "nv_inference_request_failure"}
"""triton-inference-server/server, docs/user_guide/metrics.md."""


def load(path: Path) -> Any:
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    return documents[0] if len(documents) == 1 else documents


def versions() -> dict[str, str]:
    lines = (DOCKER / "versions.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:orpheus_lm|snac_decoder|nv)_[a-z_]+", text))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_parses(path: Path) -> None:
    assert load(path)


def test_versions_live_in_one_file() -> None:
    for name, image in versions().items():
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", image), name
    for path in [*DOCKER.rglob("*"), *(ROOT / "deploy").rglob("*")]:
        if path.is_file() and path.name != "versions.env":
            assert not [image for image in versions().values() if image in path.read_text(encoding="utf-8")], path
    used = re.findall(r"\$\{(\w+_IMAGE)", (DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    assert set(used) <= set(versions())
    assert "latest" not in "".join(versions().values())


@pytest.mark.parametrize("name", ["Dockerfile.cpu", "Dockerfile.gpu"])
def test_hadolint(name: str) -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, "--ignore", "DL3006", str(DOCKER / name)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Dockerfile.cpu", "Dockerfile.gpu"])
def test_what_is_copied_exists_and_is_not_ignored(name: str) -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (DOCKER / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert source in allowed


def test_profiles_ports_and_the_time_to_stop() -> None:
    services = load(DOCKER / "compose.yaml")["services"]
    assert {name: service["profiles"] for name, service in services.items()} == {
        "cpu": ["cpu"], "gpu": ["gpu"], "prometheus": ["monitoring"], "grafana": ["monitoring"],
    }  # fmt: skip
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
    for name in ("cpu", "gpu"):
        timeout = re.search(r"exit-timeout-s(?:ecs)?\D+(\d+)", (DOCKER / f"Dockerfile.{name}").read_text(encoding="utf-8"))
        assert timeout is not None
        assert int(services[name]["stop_grace_period"].rstrip("s")) > int(timeout[1]), "Docker kills after its grace period"
        assert services[name]["shm_size"] == "1gb"


def test_settings_in_the_containers_are_settings() -> None:
    known = {f"ORPHEUS_LM_{name.upper()}" for name in speech_settings()} | {f"SNAC_{name.upper()}" for name in codec_settings()}
    for path in (DOCKER / "Dockerfile.gpu", DOCKER / "compose.yaml"):
        assert set(re.findall(r"\b(?:ORPHEUS_LM|SNAC)_[A-Z_]+\b", path.read_text(encoding="utf-8"))) <= known


def speech_settings() -> list[str]:
    from dataclasses import fields

    from speech_lm.settings import Settings

    return [field.name for field in fields(Settings)]


def codec_settings() -> list[str]:
    from dataclasses import fields

    from snac_codec.settings import Settings

    return [field.name for field in fields(Settings)]


@pytest.mark.parametrize("path", [DOCKER / "prometheus/alerts.yml", DOCKER / "grafana/dashboards/orpheus.json"], ids=lambda path: path.name)
def test_every_metric_that_is_watched_exists(path: Path) -> None:
    named = metrics_in(path.read_text(encoding="utf-8"))
    assert len(named) > 5
    assert named <= OURS | TRITONS


def test_the_dashboards_panels_do_not_overlap() -> None:
    dashboard = json.loads((DOCKER / "grafana/dashboards/orpheus.json").read_text(encoding="utf-8"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(target["datasource"]["uid"] == "prometheus" for panel in dashboard["panels"] for target in panel["targets"])


def test_the_balancer_retries_before_the_first_chunk_only_and_has_no_time_limit() -> None:
    envoy = load(ROOT / "deploy/envoy.yaml")["static_resources"]
    manager = envoy["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    route = manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]
    assert route["timeout"] == "0s"
    conditions = set(route["retry_policy"]["retry_on"].split(","))
    assert "unavailable" in conditions
    assert not conditions & {"reset", "5xx", "internal", "cancelled"}, "these could come in the middle of a stream's start"
    (cluster,) = envoy["clusters"]
    assert cluster["lb_policy"] == "LEAST_REQUEST"
    options = cluster["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
    ping = options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]["interval"]
    assert int(ping.rstrip("s")) > 300, "Triton closes connections that ping more often"
