"""The chart with every option on, by the real Helm; nothing is left when it is uninstalled."""

import json
import ssl
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import TimeoutError as NotSeenError
from playwright.async_api import async_playwright

from e2e.console.chromium import FLAGS, chromium
from e2e.harness.controlplane.places import ROOT
from e2e.harness.support import pki
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.chart.helm import Object
from e2e.install.chart.release import Release
from e2e.install.removal import inventory
from e2e.nodes.cluster.cluster import CONTROL_PLANE, RealNodes
from e2e.nodes.cluster.network import PODS
from e2e.nodes.installation import NAMESPACE, is_ready, pods, rolled_out

pytestmark = pytest.mark.timeout(900)

CONSOLE = "muster-console"
HOST = f"{CONSOLE}.{NAMESPACE}"
USER = "user-of-the-console"
MONITORS = "/apis/monitoring.coreos.com/v1/servicemonitors"
VALUES: Object = {
    "profiles": [{"schedulerName": "muster-scheduler"}, {"schedulerName": "muster-spread"}],
    "topologyKeys": ["example.com/rack"],
    "crds": {"install": True, "keep": False},
    "metrics": {"serviceMonitor": {"enabled": True}},
    "flowControl": {"enabled": True},
}


def _policies(nodes: RealNodes) -> Object:
    """Return the values that close the webhook and the console to pods, but not to the host."""
    # An API server on a node, and what this test sends through one, come from its tunnel's address.
    admitted = [{"ipBlock": {"cidr": f"{nodes.nodes[CONTROL_PLANE].addresses.tunnel}/32"}}]
    return {
        "console": {"enabled": True, "hosts": [HOST], "from": admitted},
        "networkPolicy": {"enabled": True, "podNetworks": [PODS], "webhookFrom": admitted},
    }


def service_monitors() -> Object:
    """Return the kind of the Prometheus operator, as far as the chart needs it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "ServiceMonitor", "plural": "servicemonitors"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


async def test_every_option_becomes_ready_and_nothing_is_left(
    nodes: RealNodes, kubectl: Kubectl, tmp_path: Path
) -> None:
    await kubectl("create", "-f", "-", stdin=service_monitors())
    crd = "crd/servicemonitors.monitoring.coreos.com"
    await kubectl("wait", crd, "--for=condition=Established")
    await kubectl("apply", "-f", str(ROOT / "manifests/base/namespace.yaml"))
    keys = pki.issue(tmp_path / "tls")
    secret = (f"--cert={keys.certificate}", f"--key={keys.key}")
    await kubectl("create", "secret", "tls", "muster-console-tls", "-n", NAMESPACE, *secret)
    async with nodes.client() as rest:
        await eventually(lambda: lists(rest, MONITORS), "the kind to be served", 60)
        release = Release(nodes.kubeconfig, rest)
        before = await inventory.take(rest)

        await release.install(VALUES | _policies(nodes))
        await rolled_out(kubectl, CONSOLE)

        found = await pods(kubectl)
        assert len(found) == 7
        assert all(is_ready(pod) for pod in found)
        await answers_through_its_service(kubectl, keys.ca)

        await release.remove()
        await nothing_is_left(rest, before)
    await kubectl("delete", "namespace", NAMESPACE)
    await kubectl("delete", crd)


async def lists(rest: Rest, path: str) -> bool:
    return (await rest.get(path)).status == 200


async def nothing_is_left(rest: Rest, before: inventory.Inventory) -> None:
    left: list[tuple[str, str, str]] = []

    async def nothing() -> bool:
        nonlocal left
        found = (key for key in await inventory.take(rest) if key not in before)
        left = [key for key in found if "muster" in key[0] + key[2]]
        return not left

    try:
        await eventually(nothing, "all objects of the release to be deleted", 120)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {left}") from error


async def answers_through_its_service(kubectl: Kubectl, authority: Path) -> None:
    """The console serves its page at the address of its Service, which kube-proxy routes."""
    shown = await kubectl("get", "service", CONSOLE, "-n", NAMESPACE, "-o", "json")
    address = json.loads(shown)["spec"]["clusterIP"]
    context = ssl.create_default_context(cafile=str(authority))
    options: Object = {"headers": {"Host": HOST}, "ssl": context, "server_hostname": "localhost"}
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"https://{address}/", **options) as answer,
    ):
        assert answer.status == 200
        assert "<title>Muster</title>" in await answer.text()
    await signs_in_with_a_browser(kubectl, address)


async def signs_in_with_a_browser(kubectl: Kubectl, address: str) -> None:
    """A user of one namespace signs in with a token, and sees the page of the cluster."""
    await kubectl("create", "namespace", USER)
    await kubectl("create", "serviceaccount", "user", "-n", USER)
    account = f"--serviceaccount={USER}:user"
    await kubectl("create", "rolebinding", "user", "-n", USER, "--clusterrole=view", account)
    token = await kubectl("create", "token", "user", "-n", USER)
    flags = [*FLAGS, f"--host-resolver-rules=MAP {HOST} {address}"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=flags)
        page = await browser.new_page(ignore_https_errors=True)
        answers: list[str] = []
        page.on("response", lambda answer: answers.append(f"{answer.status} {answer.url}"))
        await page.goto(f"https://{HOST}/")
        await page.get_by_label("Token").fill(token.strip())
        await page.get_by_role("button", name="Log in").click()
        try:
            await page.get_by_text("Live").wait_for()
        except NotSeenError as error:
            seen = await page.inner_text("body")
            log = await kubectl("logs", f"deployment/{CONSOLE}", "-n", NAMESPACE)
            raise AssertionError(f"{answers}\n{seen}\n{log}") from error
        await browser.close()
    await kubectl("delete", "namespace", USER)
