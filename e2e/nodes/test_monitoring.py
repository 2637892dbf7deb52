"""A Prometheus in a pod scrapes every replica of Muster, with the rules of manifests/monitoring."""

import json
from typing import Any

import aiohttp
import yaml

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.nodes import programs
from e2e.nodes.installation import pods
from e2e.nodes.tenant import Json, Tenant, job

_RULES = ROOT / "manifests/monitoring/rules.yaml"
_PORT = 9090


async def test_every_replica_is_scraped_and_no_alert_fires(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    replicas = await pods(kubectl)
    targets = [f"{pod['status']['podIP']}:{_health_port(pod)}" for pod in replicas]
    await tenant.apply(_configuration(targets), _prometheus(), _service(), job("gang", 2))
    await tenant.running("gang", 2)
    shown = await tenant.kubectl("get", "service", "prometheus", "-o", "json")
    address = json.loads(shown)["spec"]["clusterIP"]

    async with aiohttp.ClientSession(f"http://{address}:{_PORT}", trust_env=False) as session:

        async def all_up() -> bool:
            return await _values(session, "up == 1") == ["1"] * len(targets)

        await eventually(all_up, f"{len(targets)} targets to be up", 120)

        async def one_started() -> bool:
            return bool(
                await _values(
                    session, 'muster_scheduler_schedule_attempts_total{result="scheduled"} > 0'
                )
            )

        await eventually(one_started, "the gang to be counted", 60)
        assert len(await _values(session, "muster_build_info")) == len(targets)
        assert await _values(session, 'ALERTS{alertstate="firing"}') == []


def _health_port(pod: Json) -> int:
    (container,) = pod["spec"]["containers"]
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    return int(ports["health"])


async def _values(session: aiohttp.ClientSession, query: str) -> list[str]:
    """Return the values of an instant query; none while Prometheus does not answer."""
    try:
        async with session.get("/api/v1/query", params={"query": query}) as answer:
            body = await answer.json()
    except aiohttp.ClientError:
        return []
    assert body["status"] == "success", body
    return [sample["value"][1] for sample in body["data"]["result"]]


def _configuration(targets: list[str]) -> Json:
    scraped: Any = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["/etc/prometheus/rules.yaml"],
        "scrape_configs": [{"job_name": "muster", "static_configs": [{"targets": targets}]}],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prometheus"},
        "data": {"prometheus.yaml": yaml.safe_dump(scraped), "rules.yaml": _RULES.read_text()},
    }


def _prometheus() -> Json:
    container: Json = {
        "name": "main",
        "ports": [{"containerPort": _PORT}],
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/etc/prometheus"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    spec: Json = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "configuration", "configMap": {"name": "prometheus"}},
            {"name": "data", "emptyDir": {}},
        ],
    }
    arguments = ("--config.file=/etc/prometheus/prometheus.yaml", "--storage.tsdb.path=/data")
    programs.run(spec, container, "prometheus", *arguments)
    spec["securityContext"]["fsGroup"] = spec["securityContext"]["runAsUser"]
    metadata = {"name": "prometheus", "labels": {"app": "prometheus"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _service() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "prometheus"},
        "spec": {"selector": {"app": "prometheus"}, "ports": [{"port": _PORT}]},
    }
