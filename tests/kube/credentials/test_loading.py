"""The sources of configuration and credentials."""

from pathlib import Path
from typing import Any

import pytest

from kube.base.errors import ConfigError, Unauthorized
from kube.client.client import Client
from kube.client.resources import NODES
from kube.credentials import loading
from kube.credentials.loading import ClientConfig, load
from tests.support.api_server import Reply, ScriptedServer, failure, server_certificate
from tests.support.clock import FakeClock


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such file"):
        await load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("current-context: [", id="no YAML"),
        pytest.param("just words", id="no mapping"),
        pytest.param("", id="empty"),
        pytest.param("current-context: x\ncontexts: []\n", id="a context that is not there"),
    ],
)
async def test_a_broken_file_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(ConfigError, match="kubeconfig"):
        await load(path)


async def test_the_environment_names_the_file(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert (await load()).server == server.url


async def test_a_pod_uses_its_service_account(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    monkeypatch.setattr(loading, "TOKEN", token)
    monkeypatch.setattr(loading, "AUTHORITIES", Path(server_certificate()))
    namespace = tmp_path / "namespace"
    namespace.write_text("team\n")
    monkeypatch.setattr(loading, "NAMESPACE", namespace)
    clock = FakeClock()

    await server.answer(Reply({}), Reply({}))
    async with Client(await load(), clock=clock) as client:
        assert client.namespace == "team"
        await client.get(NODES, "n")
        token.write_text("second\n")
        clock.jump(61)
        await client.get(NODES, "n")

    assert tokens(server) == ["Bearer first", "Bearer second"]


async def test_a_pod_without_its_token_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)

    with pytest.raises(ConfigError, match="in-cluster"):
        await load()


async def test_a_pod_with_an_empty_token_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(loading, "TOKEN", token)

    with pytest.raises(ConfigError, match="token is empty"):
        await load()


async def test_a_pod_finds_a_server_with_an_ipv6_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(loading, "TOKEN", token)
    monkeypatch.setattr(loading, "AUTHORITIES", Path(server_certificate()))

    monkeypatch.setattr(loading, "NAMESPACE", tmp_path / "nowhere")

    read = await load()

    assert (read.server, read.namespace) == ("https://[fd00::1]:443", "default")


async def test_a_token_file_is_read_again_after_a_minute(
    server: ScriptedServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    clock = FakeClock()
    path = server.kubeconfig(tmp_path, {"tokenFile": str(token)})
    await server.answer(Reply({}), Reply({}), Reply({}))

    async with Client(await load(path), clock=clock) as client:
        await client.get(NODES, "n")
        token.write_text("second")
        await client.get(NODES, "n")
        clock.jump(61)
        await client.get(NODES, "n")

    assert tokens(server) == ["Bearer first", "Bearer first", "Bearer second"]


async def test_refused_credentials_are_read_again_at_once(
    server: ScriptedServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    path = server.kubeconfig(tmp_path, {"tokenFile": str(token)})
    await server.answer(failure(401, "Unauthorized"), Reply({}))

    async with await Client.connect(path) as client:
        token.write_text("second")
        with pytest.raises(Unauthorized):
            await client.get(NODES, "n")
        token.write_text("third")
        await client.get(NODES, "n")

    assert tokens(server) == ["Bearer second", "Bearer third"]


async def test_an_exec_plugin_gives_the_token(server: ScriptedServer, tmp_path: Path) -> None:
    credential = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"from-plugin"}}'
    )
    path = server.kubeconfig(tmp_path, exec_user("echo", [credential]))
    await server.answer(Reply({}))

    async with await Client.connect(path) as client:
        await client.get(NODES, "n")

    assert tokens(server) == ["Bearer from-plugin"]


async def test_an_exec_plugin_that_fails_is_a_configuration_error(
    server: ScriptedServer, tmp_path: Path
) -> None:
    path = server.kubeconfig(tmp_path, exec_user("false", []))

    with pytest.raises(ConfigError, match="exec plugin"):
        await load(path)


async def test_basic_credentials_are_sent_as_such(server: ScriptedServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path, {"username": "u", "password": "p"})
    await server.answer(Reply({}))

    async with await Client.connect(path) as client:
        await client.get(NODES, "n")

    assert tokens(server) == ["Basic dTpw"]


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "client-certificate: .*No such file", id="missing"),
        pytest.param("no certificate", "certificates for", id="no certificate"),
    ],
)
async def test_a_client_certificate_that_cannot_be_used_is_a_configuration_error(
    server: ScriptedServer, tmp_path: Path, content: str | None, want: str
) -> None:
    file = tmp_path / "client.pem"
    if content is not None:
        file.write_text(content)
    user = {"client-certificate": str(file), "client-key": str(file)}

    with pytest.raises(ConfigError, match=want):
        await load(server.kubeconfig(tmp_path, user))


async def test_plain_http_needs_no_certificates(tmp_path: Path) -> None:
    async with ScriptedServer(Reply({"ok": True}), tls=False) as server:
        connection = await load(server.kubeconfig(tmp_path))
        async with Client(connection) as client:
            assert await client.get(NODES, "n") == {"ok": True}

    assert connection.tls is None


def tokens(server: ScriptedServer) -> list[str]:
    return [seen.headers["Authorization"] for seen in server.seen]


def exec_user(command: str, args: list[str]) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": command,
            "args": args,
            "interactiveMode": "Never",
        }
    }


CONTEXTS = """
current-context: one
contexts:
- {name: one, context: {cluster: one, user: USER}}
- {name: two, context: {cluster: two, user: USER, namespace: team}}
clusters:
- {name: one, cluster: {server: "http://one:1"}}
- {name: two, cluster: {server: "http://two:2"}}
users:
- {name: plain, user: {token: t}}
- {name: plugin, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, args: [
    '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
      "status": {"token": "t"}}'], interactiveMode: Never}}}
"""


@pytest.mark.parametrize("user", ["plain", "plugin"])
async def test_a_context_may_be_named(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a pod, whose own account is the default."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    path = tmp_path / "kubeconfig"
    path.write_text(CONTEXTS.replace("USER", user))
    monkeypatch.setenv("KUBECONFIG", str(path))

    found = await load(ClientConfig(context="two"))

    assert (found.server, found.namespace) == ("http://two:2", "team")
    assert await found.authorization() == "Bearer t"
    assert (await load(path)).server == "http://one:1"
    path.write_text(path.read_text().replace("current-context: one", ""))
    assert (await load(ClientConfig(path, "two"))).server == "http://two:2"
    with pytest.raises(ConfigError, match="three"):
        await load(ClientConfig(path, "three"))
