"""Users whose credentials come from an exec plugin, or from an OpenID Connect provider (`oidc`).

client-go has the same two. Both are asked again once the credential expires. The providers `gcp`
and `azure` ended with Kubernetes 1.26.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from kube.base.clock import SystemClock, moment
from kube.base.errors import ConfigError
from kube.credentials.kubeconfig import Chosen, choose
from kube.credentials.rest_config import RestConfig

_SKEW: Final = timedelta(minutes=5)
"""Time before its end at which a credential is renewed."""

_REMOVED: Final = {"gcp": "gke-gcloud-auth-plugin", "azure": "kubelogin"}
"""Providers that Kubernetes removed in 1.26, and the exec plugins that replace them."""


class Credential(msgspec.Struct, rename="camel", frozen=True):
    """The `status` of an ExecCredential: a token, or a client certificate with its key, or both."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    @property
    def is_complete(self) -> bool:
        """True if it has a token, or a certificate with its key."""
        return bool(self.token or (self.client_certificate_data and self.client_key_data))

    def is_valid(self, now: datetime) -> bool:
        """Return true if it is good for some time; one that does not say until when is not."""
        end = moment(self.expiration_timestamp or "")
        return end is not None and end - _SKEW > now


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    interactive_mode: str | None = None
    install_hint: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    api_version: str
    status: Credential


class _Provider(msgspec.Struct):
    name: str
    config: dict[str, str] | None = None


class Source(Protocol):
    """A plugin or a provider."""

    async def fetch(self) -> Credential:
        """Return a new credential. Raises ValueError, OSError, and what aiohttp raises."""


async def read(paths: Sequence[Path], context: str | None = None) -> RestConfig:
    """Return a context of the files, whose user has a plugin or a provider.

    Without `context` it is the current one. Raises ConfigError, which names the files.
    """
    named = os.pathsep.join(map(str, paths))
    try:
        chosen = choose(paths, context)
        renewed = _Renewed(named, _source(chosen))
        # Now: who reads the configuration wants to know that there is no credential.
        await renewed.authorization()
        return chosen.rest_config(renewed.authorization, lambda: renewed.certificate)
    except (OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {named}: {error}") from error


class _Renewed:
    """The last credential of a source, which is asked again before the credential ends."""

    def __init__(self, named: str, source: Source) -> None:
        self._named = named
        self._source = source
        self._credential = Credential()
        self._clock = SystemClock()

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """The client certificate with its key; None if the source gave none."""
        held = self._credential
        certificate, key = held.client_certificate_data, held.client_key_data
        return (certificate.encode(), key.encode()) if certificate and key else None

    async def authorization(self) -> str | None:
        """Return the header. Raises ConfigError if there is no credential."""
        if not self._credential.is_valid(self._clock.now()):
            try:
                credential = await self._source.fetch()
                if not credential.is_complete:
                    raise ValueError("it returned no credentials")
            except (OSError, ValueError, aiohttp.ClientError) as error:
                raise ConfigError(f"kubeconfig {self._named}: {self._source}: {error}") from error
            self._credential = credential
        token = self._credential.token
        return f"Bearer {token}" if token else None


def _source(chosen: Chosen) -> Source:
    """Return the source of a user. Raises ValueError for one that is unknown or incomplete."""
    if "exec" in chosen.user:
        return ExecPlugin(msgspec.convert(chosen.user["exec"], _Exec), chosen.user_folder)
    provider = msgspec.convert(chosen.user["auth-provider"], _Provider)
    if plugin := _REMOVED.get(provider.name):
        raise ValueError(
            f"auth-provider {provider.name}: Kubernetes removed it in 1.26: use the exec plugin"
            f" {plugin}"
        )
    if provider.name != "oidc":
        raise ValueError(f"auth-provider {provider.name}: no such provider")
    return OpenIdConnect(provider.config or {}, chosen.user_folder)


class ExecPlugin:
    """A command that prints an ExecCredential."""

    def __init__(self, config: _Exec, folder: Path) -> None:
        self._config = config
        # As in client-go: a path is relative to the kubeconfig, a name is looked up in PATH.
        has_path = os.sep in config.command
        self._command = str(folder / config.command) if has_path else config.command

    def __str__(self) -> str:
        return f"exec plugin {self._config.command}"

    async def fetch(self) -> Credential:
        """Run the command and return its credential. Raises ValueError or OSError."""
        config = self._config
        interactive = config.interactive_mode != "Never" and sys.stdin.isatty()
        info = {
            "apiVersion": config.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": interactive},
        }
        variables = {one.name: one.value for one in config.env or ()}
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *(config.args or ()),
                env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError as error:
            hint = f"; {config.install_hint}" if config.install_hint else ""
            raise ValueError(f"no such command{hint}") from error
        output, errors = await process.communicate()
        if process.returncode:
            words = errors.decode(errors="replace").strip()
            raise ValueError(f"exit code {process.returncode}: {words}")
        response = msgspec.json.decode(output, type=_Response)
        if response.api_version != config.api_version:
            raise ValueError(f"it answers in {response.api_version}, not {config.api_version}")
        return response.status


class OpenIdConnect:
    """An ID token, and a refresh token with which the issuer renews it.

    The kubeconfig is not written: a renewed token lives as long as the process.
    """

    def __init__(self, config: dict[str, str], folder: Path) -> None:
        self._config = dict(config)
        self._folder = folder

    def __str__(self) -> str:
        return "auth-provider oidc"

    async def fetch(self) -> Credential:
        """Return the token, renewed if it ends. Raises ValueError or errors of the request."""
        token = self._config.get("id-token", "")
        credential = Credential(token, expiration_timestamp=_end_of(token) if token else None)
        endless = not credential.expiration_timestamp
        if token and (endless or credential.is_valid(SystemClock().now())):
            return credential
        await self._refresh()
        token = self._config["id-token"]
        return Credential(token, expiration_timestamp=_end_of(token))

    async def _refresh(self) -> None:
        config = self._config
        for key in ("refresh-token", "idp-issuer-url", "client-id"):
            if not config.get(key):
                raise ValueError(f"there is no valid id-token, and no {key} to get one")
        form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
        login = aiohttp.encode_basic_auth(config["client-id"], config.get("client-secret", ""))
        url = f"{config['idp-issuer-url'].rstrip('/')}/.well-known/openid-configuration"
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context()),
            timeout=aiohttp.ClientTimeout(total=30),
            raise_for_status=True,
            trust_env=True,
        ) as session:
            async with session.get(url) as response:
                endpoint = _text(await response.json(content_type=None), "token_endpoint")
            async with session.post(
                endpoint, data=form, headers={"Authorization": login}
            ) as response:
                tokens = await response.json(content_type=None)
        config["id-token"] = _text(tokens, "id_token")
        # Most issuers keep the refresh token.
        config["refresh-token"] = tokens.get("refresh_token") or config["refresh-token"]

    def _context(self) -> ssl.SSLContext:
        if data := self._config.get("idp-certificate-authority-data"):
            return ssl.create_default_context(cadata=base64.b64decode(data).decode("ascii"))
        file = self._config.get("idp-certificate-authority")
        return ssl.create_default_context(cafile=str(self._folder / file) if file else None)


def _text(response: Any, key: str) -> str:
    found = response.get(key) if isinstance(response, dict) else None
    if not isinstance(found, str) or not found:
        raise ValueError(f"the issuer's response has no {key}")
    return found


def _end_of(token: str) -> str | None:
    """Return the end of a JSON web token as a timestamp; None if it has none.

    Raises ValueError for another kind of token.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("id-token is no JSON web token: it must have three parts")
    claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    end = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(end, int | float):
        return None
    return datetime.fromtimestamp(end, UTC).isoformat()
