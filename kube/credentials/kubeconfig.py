"""Kubeconfig files with their credentials in them or in files: tokens, certificates, a password.

Processes and most users have these. `kube.credentials.plugins` asks the exec plugins and providers
that other files name.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    current_context: str | None = None
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


Certificate = Callable[[], tuple[bytes, bytes] | None]
"""Return the client certificate of a plugin, with its key; None for the one in the file."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The cluster and the user of a context, each with the folder of its file.

    `user` is as in the file: a mapping, whatever its fields.
    """

    cluster: _Cluster
    cluster_folder: Path
    user: Mapping[str, Any]
    user_folder: Path
    user_file: Path
    namespace: str

    @property
    def has_plugin(self) -> bool:
        """True if the credentials come from an exec plugin or a provider."""
        return not self.user.keys().isdisjoint({"exec", "auth-provider"})

    def rest_config(
        self, authorization: Authorization, certificate: Certificate = lambda: None
    ) -> RestConfig:
        """Return the configuration. Raises ConfigError, ValueError or OSError."""
        cluster, server = self.cluster, self.cluster.server.rstrip("/")
        user = msgspec.convert(self.user, _User)

        def material() -> TlsMaterial:
            return _material(self, user, certificate())

        return RestConfig(
            server=server,
            authorization=authorization,
            tls=Tls(server, material) if server.startswith("https") else None,
            server_name=cluster.tls_server_name or None,
            proxy=cluster.proxy_url or None,
            namespace=self.namespace,
        )


def read(*paths: Path, context: str | None = None) -> RestConfig | None:
    """Return a context of the files; None if its user has a plugin or a provider.

    Without `context` it is the current one. Raises ConfigError, which names the files and the
    field.
    """
    try:
        chosen = choose(paths, context)
        if chosen.has_plugin:
            return None
        user = msgspec.convert(chosen.user, _User)
        return chosen.rest_config(_authorization(user, chosen.user_file))
    except (OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {os.pathsep.join(map(str, paths))}: {error}") from error


def choose(paths: Sequence[Path], context: str | None = None) -> Chosen:
    """Return what a context names. As in kubectl, the first file that has a name wins.

    Without `context` it is the current one. Raises ValueError or OSError.
    """
    files = [(path, msgspec.yaml.decode(path.read_bytes(), type=_File)) for path in paths]
    current = next((file.current_context for _, file in files if file.current_context), None)
    name = context or current
    if name is None:
        raise ValueError("there is no current-context")
    _, entry = _named("contexts", [(path, file.contexts) for path, file in files], name)
    found = entry.context
    cluster_file, cluster = _named(
        "clusters", [(path, file.clusters) for path, file in files], found.cluster
    )
    user_file, user = _user([(path, file.users) for path, file in files], found)
    return Chosen(
        msgspec.convert(cluster.cluster, _Cluster),
        cluster_file.parent,
        user,
        user_file.parent,
        user_file,
        found.namespace or DEFAULT_NAMESPACE,
    )


def _user(
    files: Sequence[tuple[Path, list[_NamedUser] | None]], context: _Context
) -> tuple[Path, Mapping[str, Any]]:
    """Return the user of the context with its file; without one, a user with no credentials."""
    users = (user.name for _, entries in files for user in entries or ())
    if not context.user or context.user not in users:
        return files[0][0], {}
    path, entry = _named("users", files, context.user)
    return path, msgspec.convert({} if entry.user is None else entry.user, dict[str, Any])


_Named = TypeVar("_Named", _NamedContext, _NamedCluster, _NamedUser)


def _named(
    where: str, files: Sequence[tuple[Path, list[_Named] | None]], name: str
) -> tuple[Path, _Named]:
    """Return the entry of that name in the first file that has it, with the file.

    Raises ValueError if there is none, or more than one in that file.
    """
    for path, entries in files:
        found = [entry for entry in entries or () if entry.name == name]
        if len(found) == 1:
            return path, found[0]
        if found:
            raise ValueError(
                f"{where}: found {len(found)} with the name {name!r}, must be exactly one"
            )
    raise ValueError(f"{where}: found 0 with the name {name!r}, must be exactly one")


def _material(chosen: Chosen, user: _User, given: tuple[bytes, bytes] | None) -> TlsMaterial:
    cluster, folder = chosen.cluster, chosen.user_folder
    certificate, key = given or (
        _content(
            "client-certificate", user.client_certificate_data, user.client_certificate, folder
        ),
        _content("client-key", user.client_key_data, user.client_key, folder),
    )
    return TlsMaterial(
        authorities=_content(
            "certificate-authority",
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            chosen.cluster_folder,
        ),
        certificate=certificate,
        key=key,
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
