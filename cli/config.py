"""The configuration file: one for all processes, each reads its part. All fields are optional."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from kube.errors import ConfigError
from kube.settings import LeaderElection, Section, read
from scheduler.config import Config as Scheduler
from webhooks.app import WebhookConfig
from webhooks.registration import ServiceTarget, UrlTarget

Port = Annotated[int, Meta(ge=0, le=65535)]


class Webhook(Section, frozen=True):
    """Where the webhook listens, its Service, and where its certificates are kept.

    Certificates are in the Secret `secret`, or in the folder `certDir` if that is given.
    """

    host: str = "0.0.0.0"  # noqa: S104 - a pod is called from outside
    port: Port = 9443
    service: str = "muster-webhook"
    secret: str = "muster-webhook-certificates"  # noqa: S105 - a name, nothing secret
    cert_dir: str | None = None
    drain_seconds: Annotated[float, Meta(ge=0)] = 0


class File(Section, frozen=True):
    """`namespace` is where leases, the certificate Secret and the webhook's Service live."""

    namespace: str = "muster-system"
    leader_election: LeaderElection = LeaderElection()
    webhook: Webhook = Webhook()
    scheduler: Scheduler = Scheduler()


def load(path: str | Path | None) -> File:
    """The file; None gives the defaults. Raises ConfigError."""
    return read(path, File)


def webhook_config(file: File, url: str | None) -> WebhookConfig:
    """The webhook's part; with a URL it listens where the URL points. Raises ConfigError."""
    part = file.webhook
    cert_dir = Path(part.cert_dir) if part.cert_dir else None
    if url is None:
        return WebhookConfig(
            target=ServiceTarget(part.service, file.namespace),
            host=part.host,
            port=part.port,
            cert_dir=cert_dir,
            secret=part.secret,
            drain_seconds=part.drain_seconds,
        )
    try:
        target, parts = UrlTarget(url), urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from error
    return WebhookConfig(
        target=target, host=host, port=port, cert_dir=cert_dir, drain_seconds=part.drain_seconds
    )
