"""Paths on the API server."""

import pytest

from kube.client.resources import JOBS, NODES, PODS, Resource


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(PODS.path(), "/api/v1/pods", id="all namespaces"),
        pytest.param(PODS.path("ns"), "/api/v1/namespaces/ns/pods", id="one namespace"),
        pytest.param(
            JOBS.path("ns", "j", "status"),
            "/apis/batch/v1/namespaces/ns/jobs/j/status",
            id="a sub-resource of a group",
        ),
        pytest.param(NODES.path(None, "n"), "/api/v1/nodes/n", id="cluster-scoped"),
        pytest.param(NODES.path("ns", "n"), "/api/v1/nodes/n", id="namespace makes no difference"),
        pytest.param(
            NODES.path(None, "../../x?y"), "/api/v1/nodes/..%2F..%2Fx%3Fy", id="a hostile name"
        ),
    ],
)
def test_path(path: str, want: str) -> None:
    assert path == want


@pytest.mark.parametrize("namespace", [None, ""])
def test_a_namespaced_object_needs_its_namespace(namespace: str | None) -> None:
    with pytest.raises(ValueError, match="namespace"):
        PODS.path(namespace, "p")


def test_an_empty_name_would_address_the_collection() -> None:
    with pytest.raises(ValueError, match="empty"):
        PODS.path("ns", "")


def test_names() -> None:
    assert (PODS.api_version, PODS.full_name) == ("v1", "pods")
    assert (JOBS.api_version, JOBS.full_name) == ("batch/v1", "jobs.batch")
    assert Resource("g", "v2", "xs", "X").api_version == "g/v2"
