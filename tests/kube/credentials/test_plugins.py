"""Credentials of exec plugins and of the provider `oidc`, and when they are asked for again."""

import base64
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kube.base.errors import ConfigError
from kube.credentials.loading import load
from localcluster.testing.listening import Listener
from tests.kube.credentials.test_kubeconfig import (
    SERVER,
    certificate,
    shown_to_a_server,
    written,
)
from tests.support.api_server import server_certificate

VERSION = "client.authentication.k8s.io/v1"

# Counts its runs in a file, and prints what the arguments say; `{}` is the number of this run.
PLUGIN = """
import pathlib, sys
runs = pathlib.Path(sys.argv[1])
number = len(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text("x" * number)
print(sys.argv[2].replace("RUN", str(number)))
"""


def plugin(folder: Path, status: dict[str, Any], version: str = VERSION) -> dict[str, Any]:
    """Return the user of a plugin with this status."""
    said = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    arguments = ["-c", PLUGIN, str(folder / "runs"), said]
    return {"exec": {"apiVersion": VERSION, "command": sys.executable, "args": arguments}}


def at(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("end", "second"),
    [
        pytest.param(at(60), "Bearer 1", id="valid for an hour"),
        pytest.param(at(4), "Bearer 2", id="it ends soon"),
        pytest.param(None, "Bearer 2", id="without an end"),
    ],
)
async def test_a_plugin_runs_again_when_its_token_ends(
    tmp_path: Path, end: str | None, second: str
) -> None:
    status = {"token": "RUN"} | ({"expirationTimestamp": end} if end else {})
    read = await load(written(tmp_path, {}, plugin(tmp_path, status)))

    # It ran once before, when the configuration was read.
    assert await read.authorization() == second


async def test_a_plugin_gives_a_client_certificate(tmp_path: Path) -> None:
    pem = Path(server_certificate()).read_text()  # noqa: ASYNC240 - a small file
    status = {"clientCertificateData": certificate(), "clientKeyData": pem}
    read = await load(
        written(tmp_path, {"certificate-authority-data": "CA"}, plugin(tmp_path, status))
    )

    assert await read.authorization() is None
    assert read.tls is not None
    assert shown_to_a_server(read.tls.context) == ssl.PEM_cert_to_DER_cert(certificate())


async def test_a_plugin_gets_its_environment_and_is_not_asked_to_talk(tmp_path: Path) -> None:
    code = (
        "import json, os, sys; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "info['status'] = {'token': os.environ['MINE'] + str(info['spec']['interactive'])};"
        "print(json.dumps(info))"
    )
    user = {
        "exec": {
            "apiVersion": VERSION,
            "command": sys.executable,
            "args": ["-c", code],
            "env": [{"name": "MINE", "value": "mine"}],
            "interactiveMode": "Never",
        }
    }

    assert await (await load(written(tmp_path, {}, user))).authorization() == "Bearer mineFalse"


async def test_a_path_starts_at_the_folder_of_the_kubeconfig(tmp_path: Path) -> None:
    said = json.dumps({"apiVersion": VERSION, "status": {"token": "beside"}})
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho '{said}'\n")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": VERSION, "command": "./plugin"}}

    assert await (await load(written(tmp_path, {}, user))).authorization() == "Bearer beside"


@pytest.mark.parametrize(
    ("config", "want"),
    [
        pytest.param({"command": "false"}, "exec plugin false: exit code 1", id="it fails"),
        pytest.param(
            {"command": "no-such-command", "installHint": "install it by x"},
            "no such command; install it by x",
            id="it is not installed",
        ),
        pytest.param({"command": "echo", "args": ["{}"]}, "apiVersion", id="no credential"),
        pytest.param({"command": "echo", "args": ["no JSON"]}, "exec plugin echo", id="no JSON"),
        pytest.param(
            {"command": "echo", "args": ['{"apiVersion":"v0","status":{"token":"t"}}']},
            "answers in v0",
            id="another version",
        ),
        pytest.param(
            {"command": "echo", "args": [f'{{"apiVersion":"{VERSION}","status":{{}}}}']},
            "returned no credentials",
            id="an empty status",
        ),
        pytest.param({"command": 7}, r"\$.command", id="a command that is a number"),
    ],
)
async def test_a_plugin_that_gives_nothing_is_named(
    tmp_path: Path, config: dict[str, Any], want: str
) -> None:
    path = written(tmp_path, {}, {"exec": {"apiVersion": VERSION} | config})

    with pytest.raises(ConfigError, match=f"kubeconfig .*{want}"):
        await load(path)


async def test_the_plugin_and_the_cluster_may_be_in_two_files(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.mkdir()
    two.mkdir()
    user = plugin(tmp_path, {"token": "theirs"})
    first, second = written(one, {}, {}), written(two, {"certificate-authority": "ca.pem"}, user)
    document = yaml.safe_load(first.read_text())
    del document["users"], document["clusters"]
    first.write_text(yaml.safe_dump(document))

    read = await load(os.pathsep.join((str(first), str(second))))

    assert (read.server, await read.authorization()) == (SERVER, "Bearer theirs")
    assert read.tls is not None
    assert len(read.tls.context.get_ca_certs()) == 1


def token(minutes: float | None, name: str = "mine") -> str:
    claims = {"sub": name} | ({} if minutes is None else {"exp": exp(minutes)})
    parts = [{"alg": "none"}, claims]
    text = [base64.urlsafe_b64encode(json.dumps(it).encode()).decode().rstrip("=") for it in parts]
    return ".".join([*text, "signature"])


def exp(minutes: float) -> float:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).timestamp()


@pytest.fixture
async def issuer() -> AsyncIterator[str]:
    """An OpenID Connect issuer that gives a new token for the refresh token `again`."""

    async def configuration(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"http://{request.host}/token"})

    async def refresh(request: web.Request) -> web.Response:
        form = await request.post()
        login = base64.b64encode(b"me:hidden").decode()
        if request.headers.get("Authorization") != f"Basic {login}":
            return web.Response(status=401)
        if (form["grant_type"], form["refresh_token"]) != ("refresh_token", "again"):
            return web.Response(status=400)
        return web.json_response({"id_token": token(60, "new")})

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", configuration)
    app.router.add_post("/token", refresh)
    listener = Listener(app, None)
    await listener.start(0)
    yield f"http://127.0.0.1:{listener.port}"
    await listener.close()


def provider(**config: str) -> dict[str, Any]:
    return {"auth-provider": {"name": "oidc", "config": config}}


@pytest.mark.parametrize("minutes", [60, None])
async def test_a_valid_id_token_is_used(tmp_path: Path, minutes: float | None) -> None:
    mine = token(minutes)
    read = await load(written(tmp_path, {}, provider(**{"id-token": mine})))

    assert await read.authorization() == f"Bearer {mine}"
    assert await read.authorization() == f"Bearer {mine}"


@pytest.mark.parametrize("held", [token(1), ""], ids=["ends soon", "none"])
async def test_an_id_token_that_ends_is_renewed(tmp_path: Path, issuer: str, held: str) -> None:
    config = {
        "id-token": held,
        "refresh-token": "again",
        "client-id": "me",
        "client-secret": "hidden",
        "idp-issuer-url": f"{issuer}/",
    }
    path = written(tmp_path, {}, provider(**config))
    before = path.read_bytes()

    header = await (await load(path)).authorization()

    assert header is not None
    claims = json.loads(base64.b64decode(header.split(".")[1] + "=="))
    assert claims["sub"] == "new"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("user", "want"),
    [
        pytest.param(provider(), "no refresh-token to get one", id="nothing"),
        pytest.param(provider(**{"id-token": "x"}), "no JSON web token", id="no token"),
        pytest.param({"auth-provider": {"name": "gcp"}}, "gke-gcloud-auth-plugin", id="gcp"),
        pytest.param({"auth-provider": {"name": "x"}}, "no such provider", id="unknown"),
    ],
)
async def test_a_provider_without_a_token_is_named(
    tmp_path: Path, user: dict[str, Any], want: str
) -> None:
    with pytest.raises(ConfigError, match=f"kubeconfig .*auth-provider.*{want}"):
        await load(written(tmp_path, {}, user))


async def test_an_issuer_that_refuses_is_a_configuration_error(tmp_path: Path, issuer: str) -> None:
    config = {"refresh-token": "old", "client-id": "me", "idp-issuer-url": issuer}

    with pytest.raises(ConfigError, match="401"):
        await load(written(tmp_path, {}, provider(**config)))
