"""The webhook's part of the configuration file, converted to the webhook's own type."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from certs.authority import Lifetimes
from cli.config.config import Certificates, File
from kube.base.errors import ConfigError
from webhooks.app import WebhookConfig
from webhooks.server.registration import ServiceTarget, UrlTarget


def webhook_config(file: File, url: str | None) -> WebhookConfig:
    """Return the webhook's part; `url` replaces the Service. Raises ConfigError."""
    part = file.webhook
    target: ServiceTarget | UrlTarget
    if url is None:
        # cert-manager injects the CA bundle itself; Muster must not overwrite it.
        inject = part.certificates.mounted is None
        target = ServiceTarget(part.service, file.namespace, inject)
        host, port, drain = "0.0.0.0", 9443, 10.0  # noqa: S104 - a pod is called from outside
    else:
        try:
            target, parts = UrlTarget(url), urlsplit(url)
            host, port, drain = parts.hostname or "", parts.port or 443, 0.0
        except ValueError as error:
            raise ConfigError(f"--url: {error}") from error
    return WebhookConfig(
        target=target,
        host=part.host or host,
        port=port if part.port is None else part.port,
        cert_dir=_path(part.cert_dir),
        secret=part.secret,
        mounted_certificates=_path(part.certificates.mounted),
        lifetimes=_lifetimes(part.certificates),
        announced_seconds=part.certificates.announced_seconds,
        drain_seconds=drain if part.drain_seconds is None else part.drain_seconds,
        scheduler_names=file.scheduler_names,
        autoscalers=part.autoscalers.value,
        gates=file.gates,
        groups_api=file.groups.api,
        namespace=file.namespace,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _lifetimes(certificates: Certificates) -> Lifetimes:
    days = (certificates.ca_days, certificates.server_days, certificates.ahead_days)
    return Lifetimes(*(timedelta(days=each) for each in days))
