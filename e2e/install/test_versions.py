"""Features of Kubernetes versions according to `muster doctor` and docs/versions.md."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.kubernetes import FEATURES, OLDEST
from e2e.harness.controlplane.build import RELEASES
from e2e.harness.controlplane.places import KUBERNETES as RUNNING
from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.objects import Namespace, job, pod, pod_spec

Probe = Callable[[Rest], Awaitable[bool]]

DEFAULT = Namespace("default")
_DRY_RUN = {"dryRun": "All"}


async def _match_label_keys(rest: Rest) -> bool:
    term = {
        "labelSelector": {"matchLabels": {"a": "b"}},
        "matchLabelKeys": ["c"],
        "topologyKey": "zone",
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = pod("probe", spec=pod_spec(affinity=affinity), labels={"c": "d"})
    made = (await rest.post(DEFAULT.pods(), asked, params=_DRY_RUN)).expect(201)
    (stored,) = made["spec"]["affinity"]["podAffinity"].popitem()[1]
    return "matchLabelKeys" in stored


async def _managed_by(rest: Rest) -> bool:
    asked = job("probe")
    asked["spec"]["managedBy"] = "example.com/controller"
    made = (await rest.post(DEFAULT.jobs(), asked, params=_DRY_RUN)).expect(201)
    return "managedBy" in made["spec"]


async def _resize(rest: Rest) -> bool:
    found = (await rest.get("/api/v1")).ok()["resources"]
    return "pods/resize" in {one["name"] for one in found}


async def _pod_level_requests(rest: Rest) -> bool:
    asked = pod("probe", spec=pod_spec(resources={"requests": {"cpu": "1"}}))
    made = (await rest.post(DEFAULT.pods(), asked, params=_DRY_RUN)).expect(201)
    return "resources" in made["spec"]


async def _resource_claims(rest: Rest) -> bool:
    return (await rest.get("/apis/resource.k8s.io/v1")).status == 200


async def _extended_resources(rest: Rest) -> bool:
    asked = {"metadata": {"name": "probe"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    answer = await rest.post(path, asked, params=_DRY_RUN)
    if answer.status == 404:
        return False
    return "extendedResourceName" in answer.expect(201)["spec"]


PROBES: dict[str, Probe] = {
    "matchLabelKeys in the affinity of pods": _match_label_keys,
    "managedBy in Jobs": _managed_by,
    "in-place resize of pods": _resize,
    "pod-level resources (spec.resources)": _pod_level_requests,
    "resource claims (resource.k8s.io/v1)": _resource_claims,
    "devices for extended resources": _extended_resources,
}


@pytest.fixture
async def asked(rest: Rest, server_kind: str) -> tuple[Rest, tuple[int, int]]:
    """A real API server, and the version that it reports."""
    if server_kind == "local":
        pytest.skip("what API servers of Kubernetes do: run with --cluster=real")
    said: dict[str, Any] = (await rest.get("/version")).ok()
    if server_kind == "real":
        assert said["gitVersion"] == f"v{RUNNING}"
    return rest, (int(said["major"]), int(said["minor"].rstrip("+")))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
async def test_a_feature_is_there_since_the_version_that_is_said(
    asked: tuple[Rest, tuple[int, int]], feature: Any
) -> None:
    rest, version = asked

    assert await PROBES[feature.name](rest) == (version >= feature.since)


def test_the_documents_say_what_doctor_says_and_what_is_built() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]

    for feature in FEATURES:
        (row,) = (row for row in rows if row.startswith(f"| {feature.name} |"))
        assert f"| {'.'.join(map(str, feature.since))} |" in row
    for version in RELEASES:
        assert any(row.startswith(f"| {version} |") for row in rows)
    oldest = ".".join(map(str, OLDEST))
    assert f"{oldest} or later" in Path(ROOT / "docs" / "install.md").read_text()
