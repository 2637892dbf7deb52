"""The console in the cluster: two accounts with their own tokens see only their own namespaces."""

import json
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from certs.authority import new_material
from certs.material import ServerNames
from console.access import sign_in
from console.serving.in_cluster import ConsoleAddress, in_cluster
from console.serving.serving import Console
from console.state.state import Settings
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import NAMESPACE, Muster
from e2e.harness.support import accounts, manifests
from e2e.harness.support import kubeconfig as kubeconfigs
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.accounts import Account, rule
from e2e.kubernetes.apiserver.objects import Namespace
from kube.client.client import Client
from scheduler.support.kinds import GROUPS

POD_GROUPS = GROUPS["PodGroup"]


class Tenant:
    """An account with a gang in its own namespace, and its requests to the console."""

    def __init__(self, account: Account, token: str, http: aiohttp.ClientSession, url: str) -> None:
        self.account, self.token, self.http, self.url = account, token, http, url
        self.name = account.ns.name
        self.gang = f"{self.name}/PodGroup/gang-of-{self.name}"

    async def log_in(self, token: str) -> int:
        sent = {"Origin": self.url, "Content-Type": "application/json"}
        body = json.dumps({"token": token})
        async with self.http.post(f"{self.url}/api/login", data=body, headers=sent) as answer:
            return answer.status

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.http.get(f"{self.url}/api/{path}") as answer:
            return answer.status, await answer.json()

    async def known(self, console: Console) -> None:
        """Wait until the console has its group, and the API server its permissions."""
        groups, account = console.cluster.state.forest.groups, self.account
        group = ("PodGroup", self.name, f"gang-of-{self.name}")
        listed = account.ns.path(POD_GROUPS.api_version, POD_GROUPS.plural)

        async def both() -> bool:
            may = await account.allowed(account.ns.pods()) and await account.allowed(listed)
            return may and group in groups

        await eventually(both, "the tenant's group and rights", timeout=60)

    async def waits(self) -> list[str]:
        status, queue = await self.get("queue")
        assert status == 200, queue
        return [row["id"] for row in queue["items"]]


@pytest.fixture
async def own_access(
    cluster: Cluster, muster: Muster, rest: Rest, tmp_path: Path
) -> AsyncIterator[Path]:
    """The kubeconfig of the console's account, with the permissions of its manifests."""
    objects = [
        obj
        for obj in manifests.load(manifests.MANIFESTS / "console")
        if obj["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    ]
    await manifests.create(rest, objects)
    token = await accounts.token(rest, NAMESPACE, "muster-console")
    yield kubeconfigs.derive(cluster.kubeconfig, tmp_path / "console.kubeconfig", token)
    for obj in objects:
        await rest.delete(f"{manifests.path_of(obj)}/{obj['metadata']['name']}")


@pytest.fixture
async def served(own_access: Path, tmp_path: Path) -> AsyncIterator[tuple[Console, ssl.SSLContext]]:
    material = new_material(ServerNames(("localhost",)), datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(material.server_cert)
    (tmp_path / "tls.key").write_bytes(material.server_key)
    trust = ssl.create_default_context(cadata=material.ca_cert.decode())
    place = ConsoleAddress(("127.0.0.1", 0), (), tmp_path)
    async with (
        await Client.connect(own_access) as client,
        in_cluster(client, Settings(), place) as console,
    ):
        await console.cluster.wait()
        yield console, trust


async def tenant(
    stack: AsyncExitStack, rest: Rest, served: tuple[Console, ssl.SSLContext]
) -> Tenant:
    name = f"tenant-{secrets.token_hex(4)}"
    (await rest.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    stack.push_async_callback(rest.delete, f"/api/v1/namespaces/{name}")
    ns = Namespace(name)
    (await rest.post(ns.core("serviceaccounts"), {"metadata": {"name": "user"}})).expect(201)
    token = await accounts.token(rest, name, "user")
    own = await stack.enter_async_context(Rest(rest.access, token=token))
    account = Account(rest, own, ns, "user")
    stack.push_async_callback(account.close)
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": f"gang-of-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    (await rest.post(ns.path(POD_GROUPS.api_version, POD_GROUPS.plural), group)).expect(201)
    console, trust = served
    jar, connector = aiohttp.CookieJar(), aiohttp.TCPConnector(ssl=trust)
    http = aiohttp.ClientSession(cookie_jar=jar, connector=connector)
    await stack.enter_async_context(http)
    return Tenant(account, token, http, f"https://localhost:{console.port}")


async def test_tenants_see_their_own_as_the_cluster_allows_it(
    rest: Rest, served: tuple[Console, ssl.SSLContext]
) -> None:
    async with AsyncExitStack() as stack:
        tenants = [await tenant(stack, rest, served) for _ in range(2)]
        for each in tenants:
            lists = (rule("", "pods", "list"), rule(POD_GROUPS.group, "podgroups", "list"))
            await each.account.may(*lists)
            await each.known(served[0])

        for one, other in (tenants, tenants[::-1]):
            assert await one.log_in(one.token + "x") == 401
            assert await one.log_in(one.token) == 200
            _, session = await one.get("session")
            assert session["user"] == one.account.user
            assert (session["namespaces"], session["nodes"]) == ([one.name], False)
            assert (await one.get(f"workloads/{one.gang}"))[0] == 200
            assert (await one.get(f"workloads/{other.gang}"))[0] == 404
            assert (await one.get("map"))[0] == 403
            _, found = await one.get("workloads")
            assert [row["id"] for row in found["items"]] == [one.gang]
            assert all(id_.startswith(f"{one.name}/") for id_ in await one.waits())


@pytest.mark.long
async def test_a_session_ends_once_its_account_is_deleted(
    rest: Rest, served: tuple[Console, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "FRESH", 0.0)
    async with AsyncExitStack() as stack:
        gone, stays = [await tenant(stack, rest, served) for _ in range(2)]
        for each in (gone, stays):
            assert await each.log_in(each.token) == 200
            assert (await each.get("session"))[0] == 200

        # The permissions remain: they refer to the account's name, which no account has now.
        await rest.delete(f"{gone.account.ns.core('serviceaccounts')}/user")

        async def ended() -> bool:
            return (await gone.get("session"))[0] == 401

        await eventually(ended, "the session to end", timeout=60)
        assert (await stays.get("session"))[0] == 200
        assert await gone.log_in(gone.token) == 401
