"""`muster console --in-cluster`: invalid options, and the process as the Deployment starts it."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
import yaml

from cli.demo.demo import install_kinds
from cli.servers.console_service import address_of, place_of
from console.serving.in_cluster import ConsoleAddress
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.resources import NAMESPACES
from localcluster.cluster import LocalCluster
from tests.console.serving.test_in_cluster import write_certificate

ROOT = Path(__file__).resolve().parents[3]
DEPLOYMENT = ROOT / "manifests" / "console" / "deployment.yaml"


def place(tls: Path | None = None, *, plain_http: bool = False) -> ConsoleAddress:
    return place_of("0.0.0.0:8443", ["a.example"], tls, "muster-system", plain_http=plain_http)


def test_how_tokens_are_kept_from_others_has_to_be_said(tmp_path: Path) -> None:
    for tls, plain_http in ((None, False), (tmp_path, True)):
        with pytest.raises(ConfigError, match="--tls FOLDER for a certificate, or --plain-http"):
            place(tls, plain_http=plain_http)

    assert place(plain_http=True).tls is None
    found = place(tmp_path)
    assert found.address == ("0.0.0.0", 8443)
    name = "muster-console.muster-system.svc"
    assert found.hosts == (name, f"{name}:443", "a.example")


@pytest.mark.parametrize("text", ["", "8443", ":8443", "a:", "a:x", "a:65536", "a:\u0662"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        address_of(text)


def test_addresses() -> None:
    assert address_of("0.0.0.0:1") == ("0.0.0.0", 1)
    assert address_of("[::]:8443") == ("::", 8443)


def arguments(tls: Path, ports: tuple[int, int], config: Path) -> list[str]:
    """Return the arguments of the Deployment, adapted to this machine."""
    pod = yaml.safe_load(DEPLOYMENT.read_text())["spec"]["template"]["spec"]
    ours = {
        "--config": str(config),
        "--listen": f"127.0.0.1:{ports[0]}",
        "--tls": str(tls),
        "--health": f"127.0.0.1:{ports[1]}",
    }
    given = [each.partition("=")[0] for each in pod["containers"][0]["args"]]
    assert set(given) == {"console", "--in-cluster", *ours}
    return [f"{each}={ours[each]}" if each in ours else each for each in given]


async def test_the_process_is_ready_and_answers_a_user(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    ports = (unused_tcp_port_factory(), unused_tcp_port_factory())
    ca = write_certificate(tmp_path / "tls")
    config = tmp_path / "muster.yaml"
    config.write_text("{}")
    async with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
            await install_kinds(client)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cli", *arguments(tmp_path / "tls", ports, config),
            env={**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(cluster.kubeconfig)},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        trust = ssl.create_default_context(cadata=ca.decode())
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as http, asyncio.timeout(120):
            while not await ready(http, ports[1]):
                assert process.returncode is None
                await asyncio.sleep(0.1)
            url = f"https://localhost:{ports[0]}"
            token = cluster.tokens.add("anna")
            sent = {"Origin": url, "Content-Type": "application/json"}
            login = http.post(
                f"{url}/api/login", data=json.dumps({"token": token}), headers=sent, ssl=trust
            )
            async with login as answer:
                assert answer.status == 200
            async with http.get(f"{url}/api/session", ssl=trust) as answer:
                session = await answer.json()
        assert (session["user"], session["namespaces"], session["nodes"]) == ("anna", [], False)
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
    assert process.returncode == 0, said
    assert token.encode() not in said


async def ready(http: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
