"""Manifests as far as they can be looked at without a cluster: kustomize builds them, their schemas hold, and they agree with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import snac_codec.metrics
import speech_lm.metrics
import yaml
from orpheus_client.cli.arguments import build_parser

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "deploy" / "kubernetes"
PLAIN = [path for path in sorted(MANIFESTS.rglob("*.yaml")) if path.name in ("servers.yaml", "balancer.yaml", "autoscaler.yaml")]
RELEASE = "1.32"


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def built(overlay: str) -> list[dict[str, Any]]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    command = [kubectl, "kustomize", "--load-restrictor", "LoadRestrictionsNone", str(MANIFESTS / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def one(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name]
    return found


def server() -> dict[str, Any]:
    return one(documents(MANIFESTS / "base/servers.yaml"), "Deployment", "server")["spec"]["template"]["spec"]


@pytest.mark.parametrize("path", [path for path in PLAIN if path.parent.name == "base"], ids=lambda path: path.name)
def test_schemas_of_the_base(path: Path) -> None:
    for manifest in documents(path):
        kubernetes_validate.validate(manifest, RELEASE, strict=True)


@pytest.mark.parametrize("overlay", ["cpu", "gpu"])
def test_what_kustomize_builds(overlay: str) -> None:
    manifests = built(overlay)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, RELEASE, strict=True)
    images = dict(line.split("=", 1) for line in (ROOT / "docker/versions.env").read_text().splitlines() if "_IMAGE=" in line)
    (envoy,) = one(manifests, "Deployment", "balancer")["spec"]["template"]["spec"]["containers"]
    assert envoy["image"] == images["ENVOY_IMAGE"]
    (triton,) = one(manifests, "Deployment", "server")["spec"]["template"]["spec"]["containers"]
    assert triton["image"] == f"orpheus-triton:{overlay}"
    assert {mount["mountPath"] for mount in triton["volumeMounts"]} >= {"/dev/shm"}
    assert "memory" in triton["resources"]["limits"]
    (metric,) = one(manifests, "HorizontalPodAutoscaler", "server")["spec"]["metrics"]
    (configuration,) = [m for m in manifests if m["kind"] == "ConfigMap"]
    assert "LEAST_REQUEST" in configuration["data"]["envoy.yaml"]
    limit = int({v["name"]: v["value"] for v in triton.get("env", [])}.get("ORPHEUS_LM_MAX_STREAMS", "32"))
    assert int(metric["pods"]["target"]["averageValue"]) < 0.7 * limit, "room for what comes while a new pod loads"


def test_the_autoscaler_reads_a_metric_that_exists() -> None:
    (autoscaler,) = documents(MANIFESTS / "base/autoscaler.yaml")
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in speech_lm.metrics.FAMILIES
    adapter = (MANIFESTS / "prometheus-adapter.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:orpheus_lm|snac_decoder)_[a-z_]+", adapter))
    assert named == {metric["pods"]["metric"]["name"]} <= {*speech_lm.metrics.FAMILIES, *snac_codec.metrics.FAMILIES}


def test_a_pod_may_end_its_streams() -> None:
    pod = server()
    (triton,) = pod["containers"]
    command = triton["lifecycle"]["preStop"]["exec"]["command"]
    drain = build_parser().parse_args(command[1:])
    (patched,) = one(documents(MANIFESTS / "gpu/servers.yaml"), "Deployment", "server")["spec"]["template"]["spec"]["containers"]
    assert patched["lifecycle"]["preStop"]["exec"]["command"][1:] == command[1:]
    for name in ("cpu", "gpu"):
        timeout = re.search(r"exit-timeout-s(?:ecs)?\D+(\d+)", (ROOT / f"docker/Dockerfile.{name}").read_text(encoding="utf-8"))
        assert timeout is not None
        assert pod["terminationGracePeriodSeconds"] > drain.pause_s + drain.timeout_s + int(timeout[1])


def test_a_pod_is_ready_by_tritons_word_and_alive_by_its_speech() -> None:
    (triton,) = server()["containers"]
    assert triton["readinessProbe"]["httpGet"]["path"] == triton["startupProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert triton["startupProbe"]["periodSeconds"] * triton["startupProbe"]["failureThreshold"] >= 600, "as long as Dockerfile.gpu's start"
    assert triton["livenessProbe"]["exec"]["command"][-2:] == ["health", "--speak"]
    assert {port["containerPort"] for port in triton["ports"]} == {8000, 8001, 8002}


def test_the_balancer_finds_the_servers_by_the_headless_service() -> None:
    service = one(documents(MANIFESTS / "base/servers.yaml"), "Service", "orpheus")
    assert service["spec"]["clusterIP"] == "None"
    (cluster,) = yaml.safe_load((ROOT / "deploy/envoy.yaml").read_text(encoding="utf-8"))["static_resources"]["clusters"]
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint["endpoint"]["address"]["socket_address"]["address"] == service["metadata"]["name"]
