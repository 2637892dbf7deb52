"""The console as a Service: by https, with its own account, for two tenants of one cluster."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from certs.authority import new_material
from certs.material import ServerNames
from console.access.reviews import TOKEN_REVIEWS
from console.access.sign_in import COOKIE
from console.serving.in_cluster import Certificate, ConsoleAddress, in_cluster
from console.serving.serving import Console
from console.state.state import Settings
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.resources import (
    CRDS,
    NAMESPACES,
    NODES,
    PODS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from localcluster.base.auth import account_name
from localcluster.cluster import LocalCluster
from scheduler.support.kinds import GROUPS
from tests.console.browser import Browser

MANIFESTS = Path(__file__).parents[3] / "manifests"
RBAC = ("rbac.authorization.k8s.io", "v1")
KINDS = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    "ClusterRole": Resource(*RBAC, "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(
        *RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    ),
    "RoleBinding": Resource(*RBAC, "rolebindings", "RoleBinding"),
}
POD_GROUPS = GROUPS["PodGroup"]
PATIENCE = 120


def write_certificate(folder: Path) -> bytes:
    """Write a new certificate for localhost; return its CA."""
    material = new_material(ServerNames(("localhost",), ("127.0.0.1",)), datetime.now(UTC))
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(material.server_cert)
    (folder / "tls.key").write_bytes(material.server_key)
    return material.ca_cert


class Https(Browser):
    """The same by https, with its own cookie jar."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        super().__init__(session, port)
        self.url = f"https://127.0.0.1:{port}"


class Stage:
    """A cluster with two tenants, and the console that serves them."""

    def __init__(
        self, cluster: LocalCluster, client: Client, served: Console, ca: bytes, audit: Path
    ) -> None:
        self.cluster, self.client, self.served = cluster, client, served
        self.ca = ca
        self.trust = ssl.create_default_context(cadata=ca.decode())
        self.audit = audit

    async def browser(self, stack: AsyncExitStack) -> Https:
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=self.trust)
        session = aiohttp.ClientSession(cookie_jar=jar, connector=connector)
        return Https(await stack.enter_async_context(session), self.served.port)

    def token(self, user: str) -> str:
        return self.cluster.tokens.add(user)


async def apply(client: Client, obj: dict[str, Any], namespace: str | None = None) -> None:
    resource = KINDS[obj["kind"]]
    await client.create(resource, obj, namespace or obj["metadata"].get("namespace"))


async def tenant(client: Client, namespace: str, user: str) -> None:
    """Create a namespace with a pending gang, and a user who may read it."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await apply(
        client,
        {
            "apiVersion": "/".join(RBAC), "kind": "RoleBinding",
            "metadata": {"name": "reads", "namespace": namespace},
            "roleRef": {
                "apiGroup": RBAC[0], "kind": "ClusterRole", "name": "tenant",
            },
            "subjects": [{"apiGroup": RBAC[0], "kind": "User", "name": user}],
        },
    )  # fmt: skip
    group = {
        "apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind,
        "metadata": {"name": f"gang-{namespace}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }  # fmt: skip
    await client.create(POD_GROUPS, group, namespace)
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": f"pod-{namespace}",
            "labels": {"scheduling.muster.dev/pod-group": f"gang-{namespace}"},
        },
        "spec": {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "image": "none"}],
        },
    }  # fmt: skip
    await client.create(PODS, pod, namespace)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    audit = tmp_path / "audit.log"
    async with LocalCluster(audit_log=audit) as cluster, AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(cluster.kubeconfig))
        for path in sorted((MANIFESTS / "crd").glob("*.yaml")):
            await client.create(CRDS, yaml.safe_load(path.read_text()))
        await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
        for obj in yaml.safe_load_all((MANIFESTS / "console" / "rbac.yaml").read_text()):
            await apply(client, obj)
        rules = [
            {"apiGroups": ["", POD_GROUPS.group], "resources": ["pods", "podgroups"],
             "verbs": ["get", "list"]},
        ]  # fmt: skip
        await apply(client, {"kind": "ClusterRole", "metadata": {"name": "tenant"}, "rules": rules})
        await tenant(client, "red", "anna")
        await tenant(client, "blue", "ben")
        token = cluster.tokens.add(
            account_name("muster-system", "muster-console"), ["system:serviceaccounts"]
        )
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        (tmp_path / "account").write_text(yaml.safe_dump(config))
        account = await stack.enter_async_context(await Client.connect(tmp_path / "account"))
        ca = write_certificate(tmp_path / "tls")
        place = ConsoleAddress(("127.0.0.1", 0), ("console.example.com",), tmp_path / "tls")
        served = await stack.enter_async_context(in_cluster(account, Settings(), place))
        async with asyncio.timeout(PATIENCE):
            await served.cluster.wait()
        yield Stage(cluster, client, served, ca, audit)


async def logged_in(stage: Stage, stack: AsyncExitStack, user: str) -> Https:
    page = await stage.browser(stack)
    status, answer = await page.post("/api/login", {"token": stage.token(user)})
    assert status == 200, answer
    return page


async def everything(page: Https) -> str:
    """Return all content of a user's views, as one text."""
    paths = ("session", "queue", "workloads", "history", "map", "map/pods?workload=blue/PodGroup/x")
    return json.dumps([await page.get(f"/api/{path}") for path in paths])


async def test_two_tenants_see_only_their_own(stage: Stage) -> None:
    await stage.client.create(NODES, {"apiVersion": "v1", "kind": "Node",
                                      "metadata": {"name": "machine-1"}})  # fmt: skip
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        anna = await logged_in(stage, stack, "anna")
        ben = await logged_in(stage, stack, "ben")

        for page, own, other in ((anna, "red", "blue"), (ben, "blue", "red")):
            _, session = await page.get("/api/session")
            assert (session["namespaces"], session["nodes"]) == ([own], False)
            _, queue = await page.get("/api/queue")
            assert [row["id"] for row in queue["items"]] == [f"{own}/PodGroup/gang-{own}"]
            assert queue["total"] == 1
            assert (await page.get(f"/api/workloads/{own}/PodGroup/gang-{own}"))[0] == 200
            hidden = await page.get(f"/api/workloads/{other}/PodGroup/gang-{other}")
            absent = await page.get(f"/api/workloads/{other}/PodGroup/no-such")
            assert hidden == absent
            assert hidden[0] == 404
            assert (await page.get(f"/api/queue?namespace={other}"))[0] == 403
            assert (await page.get("/api/map"))[0] == 403
            said = await everything(page)
            assert f"gang-{other}" not in said
            assert f'"{other}"' not in said
            assert "machine-1" not in said


async def test_the_account_writes_nothing_but_reviews(stage: Stage) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        anna = await logged_in(stage, stack, "anna")
        await anna.get("/api/workloads/red/PodGroup/gang-red")
        await anna.post("/api/logout")

        assert (await anna.get("/api/session"))[0] == 401
    lines = [json.loads(line) for line in stage.audit.read_text().splitlines()]
    name = account_name("muster-system", "muster-console")
    own = [line for line in lines if line["user"]["username"] == name]
    assert {(line["verb"], line["requestURI"].partition("?")[0]) for line in own} >= {
        ("create", TOKEN_REVIEWS.path()),
        ("create", SUBJECT_ACCESS_REVIEWS.path()),
        ("get", POD_GROUPS.path("red", "gang-red")),
    }
    reads = {"get", "list", "watch"}
    writes = {line["requestURI"] for line in own if line["verb"] not in reads}
    assert writes == {TOKEN_REVIEWS.path(), SUBJECT_ACCESS_REVIEWS.path()}
    assert {line["requestURI"] for line in own if line["responseStatus"]["code"] == 403} == set()


async def test_the_cookie_is_for_https_alone_and_wrong_tokens_get_none(stage: Stage) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        page = await stage.browser(stack)
        for token in ("wrong", "", "x" * 20_000):
            status, _ = await page.post("/api/login", {"token": token})
            assert status in (401, 413)
        assert (await page.get("/api/queue"))[0] == 401
        sent = {"Origin": page.url, "Content-Type": "application/json"}
        body = json.dumps({"token": stage.token("anna")})
        async with page.http.post(f"{page.url}/api/login", data=body, headers=sent) as answer:
            cookie = answer.headers["Set-Cookie"].lower()
        assert cookie.startswith(COOKIE.lower())
        for part in ("httponly", "secure", "samesite=strict", "path=/"):
            assert part in cookie
        assert "domain" not in cookie
        status, _ = await page.get("/api/session", Host="evil.example.com")
        assert status == 421
        assert (await page.get("/api/session", Host="console.example.com"))[0] == 200


def test_a_new_certificate_is_taken_and_a_bad_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no certificate in"):
        Certificate(tmp_path)
    write_certificate(tmp_path)
    certificate = Certificate(tmp_path)

    assert not certificate.renew()
    write_certificate(tmp_path)
    assert certificate.renew()
    key = (tmp_path / "tls.key").read_bytes()
    write_certificate(tmp_path)
    (tmp_path / "tls.key").write_bytes(key)
    with pytest.raises(ConfigError, match="no certificate in"):
        certificate.renew()
