"""The contents of a support bundle, which has no secrets."""

import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.examination import Options
from cli.support.redaction import REMOVED, of_deployment, of_ours, of_pod, scrubbed
from cli.support.support_bundle import collect, write
from kube.client.client import Client
from tests.support.api_server import Reply, ScriptedServer, Seen, failure

Json = dict[str, Any]
PLANTED = "PLANTED"
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def planted(number: int) -> str:
    """Return a value that must not appear in the bundle."""
    return f"{PLANTED}-{number:04d}"


def metadata(name: str, namespace: str = "muster-system") -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "annotations": {LAST: planted(1), "example.com/x": planted(2)},
        "managedFields": [{"manager": planted(3)}],
    }


CONTAINER = {
    "name": "muster",
    "image": "muster:0.1.0",
    "command": [planted(4)],
    "args": ["scheduler", planted(5)],
    "env": [{"name": "A", "value": planted(6)}],
    "envFrom": [{"secretRef": {"name": planted(7)}}],
    "livenessProbe": {"exec": {"command": [planted(8)]}},
    "lifecycle": {"preStop": {"exec": {"command": [planted(9)]}}},
    "ports": [{"name": "health", "containerPort": 8080}],
}
VOLUMES = [{"name": "v", "csi": {"volumeAttributes": {"x": planted(10)}}}]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": metadata("muster-scheduler-x"),
    "spec": {"containers": [CONTAINER], "initContainers": [CONTAINER], "volumes": VOLUMES},
    "status": {"phase": "Running", "containerStatuses": [{"name": "muster", "restartCount": 0}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": metadata("muster-scheduler"),
    "spec": {
        "replicas": 1,
        "template": {
            "metadata": {"annotations": {"x": planted(11)}},
            "spec": {"containers": [CONTAINER], "volumes": VOLUMES},
        },
    },
}
GROUP = {
    "apiVersion": "scheduling.muster.dev/v1alpha3",
    "kind": "PodGroup",
    "metadata": metadata("g", "team"),
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "status": {"conditions": [{"message": f"password={planted(12)} "}]},
}
JWT = f"eyJhbGciOiJIUzI1NiJ9.{PLANTED}0000.{PLANTED}"
PEM = f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED}\n-----END EC PRIVATE KEY-----"
LOG = "\n".join(
    [
        '{"event": "leading"}',
        f"Authorization: Bearer {planted(13)}",
        f'{{"token": "{planted(14)}"}}',
        f"jwt {JWT}",
        PEM,
        f"https://user:{planted(15)}@example.com/",
        f"AWS_SECRET_ACCESS_KEY={planted(16)}",
    ]
)
EVENT = {
    "metadata": metadata("e"),
    "reason": "FailedScheduling",
    "message": f"token: {planted(17)}",
    "involvedObject": {"kind": "PodGroup", "name": "g"},
}
SECRET = {"metadata": metadata("s"), "data": {"tls.key": planted(18), "tls.crt": planted(19)}}
CONFIG = {"metadata": metadata("muster"), "data": {"muster.yaml": "", "other": planted(20)}}
LEASE = {"kind": "Lease", "metadata": metadata("muster-scheduler"), "spec": {"holderIdentity": "a"}}

PAGES = {
    "/readyz": Reply(b"[+]caches\nok\n"),
    "/metrics": Reply(f'muster_x{{token="{planted(21)}"}} 1\n'.encode()),
    "/debug/snapshot": Reply(b'{"format":5}'),
}
LISTS: dict[str, Json] = {
    "pods": POD,
    "deployments": DEPLOYMENT,
    "podgroups": GROUP,
    "events": EVENT,
    "leases": LEASE,
}


async def cluster(seen: Seen) -> Reply:
    """Reply as a cluster in which every object contains a secret."""
    last = seen.path.rpartition("/")[2]
    if "/proxy/" in seen.path:
        return PAGES["/" + seen.path.partition("/proxy/")[2]]
    if last == "log":
        if seen.query["previous"] == "true":
            return failure(400, "BadRequest", "previous terminated container not found")
        return Reply(LOG.encode())
    if "/secrets/" in seen.path:
        return Reply(SECRET)
    if "/configmaps/" in seen.path:
        return Reply(CONFIG)
    if seen.path == "/version":
        return Reply({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
    if last in LISTS:
        return Reply({"metadata": {}, "items": [LISTS[last]]})
    return failure(404, "NotFound", "not here")


@pytest.fixture
async def bundle(tmp_path: Path) -> Any:
    async with ScriptedServer() as server:
        server.handler = cluster
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            members = await collect(client, Options(renewals=0))
    file = tmp_path / "bundle.tar.gz"
    write(file, members)
    return file


def contents(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {name: part.read() for name, part in found.items() if part is not None}


async def test_no_secret_is_in_it(bundle: Path) -> None:
    for name, content in contents(bundle).items():
        assert PLANTED not in content.decode(), name


async def test_what_helps_is_in_it(bundle: Path) -> None:
    files = {name.removeprefix("muster-support/"): text for name, text in contents(bundle).items()}

    assert {
        "doctor.json",
        "versions.json",
        "missing.json",
        "objects/podgroups.scheduling.muster.dev.json",
        "objects/podgroups.scheduling.k8s.io.json",
        "objects/deployments.json",
        "objects/pods.json",
        "objects/leases.json",
        "objects/registration.json",
        "events/muster-system.json",
        "events/scheduling.muster.dev-v1alpha3.json",
        "logs/muster-scheduler-x.log",
        "readyz/muster-scheduler-x.txt",
        "metrics/muster-scheduler-x.txt",
        "snapshot/muster-scheduler-x.json",
    } <= files.keys()
    assert b'{"event": "leading"}' in files["logs/muster-scheduler-x.log"]
    assert files["snapshot/muster-scheduler-x.json"] == b'{"format":5}'
    (group,) = json.loads(files["objects/podgroups.scheduling.muster.dev.json"])["items"]
    assert group["spec"] == GROUP["spec"]
    assert list(json.loads(files["missing.json"])) == ["logs/muster-scheduler-x.previous.log"]


def test_only_its_owner_may_read_it(bundle: Path) -> None:
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert [one.name for one in bundle.parent.glob("*.part")] == []


def test_a_folder_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write(tmp_path / "none" / "x.tar.gz", {"a": b""})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("needs room for 2 pods", "needs room for 2 pods", id="plain"),
        pytest.param("Bearer abc", f"Bearer {REMOVED}", id="a bearer token"),
        pytest.param("password=hunter2 x", f"password={REMOVED} x", id="a password"),
        pytest.param('"api_key": "a b"', f'"api_key": {REMOVED}', id="a key in JSON"),
        pytest.param("the continue token expired", "the continue token expired", id="a mere word"),
        pytest.param("http://u:p@h/x", f"http://{REMOVED}@h/x", id="a user in a URL"),
    ],
)
def test_texts(text: str, want: str) -> None:
    assert scrubbed(text) == want


@pytest.mark.parametrize(
    "unit", ["eyJ-", "token", "://", "-----BEGIN PRIVATE KEY-----", 'token="\\']
)
def test_a_text_made_to_be_slow_is_not(unit: str) -> None:
    scrubbed(unit * (300_000 // len(unit)))


@pytest.mark.parametrize("keep", [of_ours, of_pod, of_deployment])
def test_objects_of_any_form(keep: Any) -> None:
    for odd in ({}, {"metadata": 1, "spec": [], "status": "x"}, {"spec": {"template": 7}}):
        keep(odd)
