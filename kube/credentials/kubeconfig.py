"""Kubeconfig files with their credentials in them or in files: tokens, certificates, a password.

Processes and most users have these. Files with exec plugins and providers are read by the official
client (`kube.credentials.official_config`), which takes long to import.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kube.base.errors import ConfigError
from kube.credentials.rest_config import (
    DEFAULT_NAMESPACE,
    Authorization,
    RestConfig,
    Tls,
    TlsMaterial,
)


class _Context(msgspec.Struct):
    cluster: str
    user: str | None = None
    namespace: str | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: Any


class _NamedUser(msgspec.Struct):
    name: str
    user: Any = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    contexts: list[_NamedContext] | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _User(msgspec.Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None


def read(path: Path, context: str | None = None) -> RestConfig | None:
    """Return a context of the file, or its current one; None if it needs the official client.

    Raises ConfigError, which names the file and the field.
    """
    try:
        return _read(path, context)
    except (OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error


def _read(path: Path, wanted: str | None) -> RestConfig | None:
    """Read like `read`, but raise ValueError and OSError, too."""
    file = msgspec.yaml.decode(path.read_bytes(), type=_File)
    context = _named("contexts", file.contexts or (), wanted or file.current_context).context
    cluster = msgspec.convert(
        _named("clusters", file.clusters or (), context.cluster).cluster, _Cluster
    )
    user = _user(file, context)
    if user is None:
        return None
    server = cluster.server.rstrip("/")
    tls = None
    if server.startswith("https"):
        tls = Tls(server, lambda: _material(cluster, user, path.parent))
    return RestConfig(
        server=server,
        authorization=_authorization(user, path),
        tls=tls,
        server_name=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or None,
        namespace=context.namespace or DEFAULT_NAMESPACE,
    )


def _user(file: _File, context: _Context) -> _User | None:
    """Return the user of the context; None if it has a plugin or a provider."""
    users = file.users or ()
    if not context.user or all(user.name != context.user for user in users):
        return _User()
    entry = _named("users", users, context.user).user
    if entry is None:
        return _User()
    if isinstance(entry, dict) and not entry.keys().isdisjoint({"exec", "auth-provider"}):
        return None
    return msgspec.convert(entry, _User)


_Named = TypeVar("_Named", _NamedContext, _NamedCluster, _NamedUser)


def _named(where: str, entries: Sequence[_Named], name: str) -> _Named:
    """Return the entry of that name. Raises ValueError if there is none, or more than one."""
    found = [entry for entry in entries if entry.name == name]
    if len(found) != 1:
        raise ValueError(f"{where}: found {len(found)} with the name {name!r}, must be exactly one")
    return found[0]


def _material(cluster: _Cluster, user: _User, folder: Path) -> TlsMaterial:
    return TlsMaterial(
        authorities=_content(
            "certificate-authority",
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            folder,
        ),
        certificate=_content(
            "client-certificate", user.client_certificate_data, user.client_certificate, folder
        ),
        key=_content("client-key", user.client_key_data, user.client_key, folder),
        verify=not cluster.insecure_skip_tls_verify,
    )


def _content(field: str, data: str | None, file: str | None, folder: Path) -> bytes | None:
    """Return the decoded data, else the content of the file, whose path starts at `folder`."""
    try:
        if data:
            return base64.b64decode("".join(data.split()), validate=True)
        return (folder / file).read_bytes() if file else None
    except ValueError as error:
        raise ValueError(f"{field}-data: {error}") from error
    except OSError as error:
        raise ValueError(f"{field}: {error.filename}: {error.strerror}") from error


def _authorization(user: _User, path: Path) -> Authorization:
    """Return a function for the header; the file of a token is read each time."""
    file = path.parent / user.token_file if user.token_file and not user.token else None
    if file is None:
        header = _fixed(user)
    else:
        # A file that cannot be read is reported now, not at the first request.
        _token(path, file)

    async def authorization() -> str | None:
        return header if file is None else _token(path, file)

    return authorization


def _fixed(user: _User) -> str | None:
    if user.token:
        return f"Bearer {user.token}"
    if user.username is not None and user.password is not None:
        plain = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(plain).decode()}"
    return None


def _token(kubeconfig: Path, file: Path) -> str | None:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {kubeconfig}: tokenFile: {error}") from error
    return f"Bearer {token}" if token else None
