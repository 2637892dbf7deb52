"""Kubeconfig files as the official client, `kubernetes.aio.config`, reads them: an oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config

from kube.base.errors import ConfigError
from kube.credentials.rest_config import (
    DEFAULT_NAMESPACE,
    Authorization,
    RestConfig,
    Tls,
    TlsMaterial,
)


async def read(files: str, context: str | None = None) -> RestConfig:
    """Return a context, by default the current one, of the files, which os.pathsep separates.

    Raises ConfigError.
    """
    settings = Configuration()
    loader = await _read(files, context, settings)
    renewal = _renewal(files, context, loader, settings)
    return _connection(settings, renewal, _namespace(loader))


async def _read(files: str, context: str | None, settings: Any) -> Any:
    """Fill `settings` from the file, and return the loader, which can renew credentials."""
    try:
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files,
            context=context,
            client_configuration=settings,
            persist_config=False,
        )
    except (ConfigException, OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {files}: {error}") from error
    _check_exec(files, loader)
    return loader


def _namespace(loader: Any) -> str:
    return str(loader.current_context["context"].get("namespace") or DEFAULT_NAMESPACE)


def _check_exec(files: str, loader: Any) -> None:
    """Raise ConfigError if an exec plugin failed, which the library only logs."""
    user = getattr(loader, "_user", None)
    if user is None or "exec" not in user:
        return
    if not hasattr(loader, "token") and not getattr(loader, "cert_file", None):
        raise ConfigError(f"kubeconfig {files}: the exec plugin returned no credentials")


def _renewal(files: str, context: str | None, loader: Any, settings: Any) -> Authorization:
    user = getattr(loader, "_user", None) or {}
    if "exec" in user:

        async def run_plugin() -> str | None:
            await loader.load_from_exec_plugin()  # returns immediately until its token expires
            _check_exec(files, loader)
            loader._set_config(settings)
            return getattr(loader, "token", None)

        return run_plugin
    if "auth-provider" in user or "tokenFile" in user:

        async def reread() -> str | None:
            # Into new settings: a failure must not spoil those in use.
            fresh = type(settings)()
            await _read(files, context, fresh)
            token: str | None = fresh.api_key.get("BearerToken")
            return token

        return reread

    async def fixed() -> str | None:
        token: str | None = settings.api_key.get("BearerToken")
        return token

    return fixed


def _connection(settings: Any, authorization: Authorization, namespace: str) -> RestConfig:
    server = settings.host.rstrip("/")
    return RestConfig(
        server=server,
        authorization=authorization,
        tls=Tls(server, lambda: _material(settings)) if server.startswith("https") else None,
        server_name=settings.tls_server_name or None,
        proxy=settings.proxy or None,
        namespace=namespace,
    )


def _material(settings: Any) -> TlsMaterial:
    try:
        return TlsMaterial(
            authorities=_content(settings.ssl_ca_cert),
            certificate=_content(settings.cert_file),
            key=_content(settings.key_file),
            verify=settings.verify_ssl,
        )
    except OSError as error:
        raise ConfigError(f"certificates for {settings.host}: {error}") from error


def _content(file: str | None) -> bytes | None:
    return Path(file).read_bytes() if file else None
