"""The address of the cluster and the credentials: the only use of the official client.

Kubeconfig files (tokens, token files, client certificates, exec plug-ins, OIDC, GCP) and the
in-cluster service account are read by `kubernetes.aio.config`, imported only when it is needed:
it takes half a second and tens of megabytes.
"""

import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kube.errors import ConfigError

Authorization = Callable[[], Awaitable[str | None]]

_SERVICE_HOST = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    """What is needed to open connections to one API server, as client-go's `rest.Config`.

    `authorization` gives the value of the header, None for none; it renews expired credentials and
    should be called about once a minute. `tls` is None for plain HTTP.
    """

    server: str
    authorization: Authorization
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


async def load(kubeconfig: str | Path | None = None) -> RestConfig:
    """Read the configuration.

    Order: the file given; else the service account of the pod we run in; else `KUBECONFIG` or
    `~/.kube/config`. Raises ConfigError.
    """
    if kubeconfig is None and os.environ.get(_SERVICE_HOST):
        return _in_cluster()
    return await _from_kubeconfig(str(kubeconfig or _default_kubeconfig()))


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _in_cluster() -> RestConfig:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_incluster_config

    settings = Configuration()
    try:
        load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(f"in-cluster configuration: {error}") from error

    async def authorization() -> str | None:
        try:
            token: str | None = await settings.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            raise ConfigError(f"service account token: {error}") from error
        return token

    return _connection(settings, authorization)


async def _from_kubeconfig(files: str) -> RestConfig:
    from kubernetes.aio.client import Configuration

    if not _any_file(files):
        raise ConfigError(f"kubeconfig {files}: no such file")
    settings = Configuration()
    loader = await _read(files, settings)
    return _connection(settings, _renewal(files, loader, settings))


def _any_file(files: str) -> bool:
    return any(Path(part).expanduser().is_file() for part in files.split(os.pathsep) if part)


async def _read(files: str, settings: Any) -> Any:
    """Fill `settings` from the file and return the loader, which can renew credentials."""
    from kubernetes.aio.config import ConfigException, load_kube_config

    try:
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files, client_configuration=settings, persist_config=False
        )
    except (ConfigException, OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {files}: {error}") from error
    _check_exec(files, loader)
    return loader


def _check_exec(files: str, loader: Any) -> None:
    """An exec plug-in that fails is only logged by the library; then there are no credentials."""
    user = getattr(loader, "_user", None)
    if user is None or "exec" not in user:
        return
    if not hasattr(loader, "token") and not getattr(loader, "cert_file", None):
        raise ConfigError(f"kubeconfig {files}: the exec plug-in gave no credentials")


def _renewal(files: str, loader: Any, settings: Any) -> Authorization:
    user = getattr(loader, "_user", None) or {}
    if "exec" in user:

        async def run_plugin() -> str | None:
            await loader.load_from_exec_plugin()  # returns at once until its token expires
            _check_exec(files, loader)
            return getattr(loader, "token", None)

        return run_plugin
    if "auth-provider" in user or "tokenFile" in user:

        async def read_again() -> str | None:
            fresh = type(settings)()
            await _read(files, fresh)
            token: str | None = fresh.api_key.get("BearerToken")
            return token

        return read_again

    async def fixed() -> str | None:
        token: str | None = settings.api_key.get("BearerToken")
        return token

    return fixed


def _connection(settings: Any, authorization: Authorization) -> RestConfig:
    server = settings.host.rstrip("/")
    return RestConfig(
        server=server,
        authorization=authorization,
        tls=_tls(settings) if server.startswith("https") else None,
        server_name=settings.tls_server_name or None,
        proxy=settings.proxy or None,
    )


def _tls(settings: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificates for {settings.host}: {error}") from error
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
