"""The address of the cluster and the credentials: from our own pod, or a kubeconfig file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kube.base.errors import ConfigError
from kube.credentials import kubeconfig
from kube.credentials.rest_config import DEFAULT_NAMESPACE, RestConfig, Tls, TlsMaterial

TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
AUTHORITIES: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")

_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The kubeconfig and the context that a user names; None for the usual and the current one."""

    kubeconfig: str | Path | None = None
    context: str | None = None


async def load(config: str | Path | ClientConfig | None = None) -> RestConfig:
    """Read the configuration.

    Order: the file given; else the service account of the pod we run in, unless a context is given;
    else `KUBECONFIG` or `~/.kube/config`. Raises ConfigError.
    """
    if not isinstance(config, ClientConfig):
        config = ClientConfig(config)
    if config == ClientConfig() and os.environ.get(_HOST):
        return _in_cluster()
    return await _from_kubeconfig(str(config.kubeconfig or _default_kubeconfig()), config.context)


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _in_cluster() -> RestConfig:
    host, port = os.environ[_HOST], os.environ.get(_PORT)
    if not port:
        raise ConfigError(f"in-cluster configuration: {_PORT} is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    _service_account(TOKEN)
    tls = Tls(server, lambda: TlsMaterial(authorities=_service_account(AUTHORITIES)))

    async def authorization() -> str | None:
        return f"Bearer {_service_account(TOKEN).decode()}"

    return RestConfig(
        server=server, authorization=authorization, tls=tls, namespace=_own_namespace()
    )


def _own_namespace() -> str:
    # A token that is mounted by hand may come without a namespace; no process depends on it.
    try:
        return NAMESPACE.read_text("utf-8").strip() or DEFAULT_NAMESPACE
    except (OSError, ValueError):
        return DEFAULT_NAMESPACE


def _service_account(path: Path) -> bytes:
    """Return a file of the service account. Raises ConfigError: it is missing or empty."""
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"in-cluster configuration: {path}: {error.strerror}") from error
    if not content:
        raise ConfigError(f"in-cluster configuration: {path} is empty")
    return content


async def _from_kubeconfig(files: str, context: str | None) -> RestConfig:
    found = [path for part in files.split(os.pathsep) if part and (path := _path(part)).is_file()]
    if not found:
        raise ConfigError(f"kubeconfig {files}: no such file")
    plain = kubeconfig.read(*found, context=context)
    if plain is not None:
        return plain
    # Imported here, as few files have a plugin or a provider.
    from kube.credentials import plugins

    return await plugins.read(found, context)


def _path(text: str) -> Path:
    return Path(text).expanduser()
