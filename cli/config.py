"""The configuration file: one for all processes, each reads its part. All fields are optional."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from certs.authority import Lifetimes
from kube.errors import ConfigError
from kube.settings import LeaderElection, Seconds, Section, read
from scheduler.config import Config as Scheduler
from webhooks.app import WebhookConfig
from webhooks.registration import ServiceTarget, UrlTarget

Days = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Certificates(Section, frozen=True):
    """Who makes the webhook's certificates, and how long they last.

    With `mounted`, a folder that cert-manager fills, nothing is made here. Otherwise a next CA
    is announced `announcedSeconds` before it is used.
    """

    mounted: str | None = None
    ca_days: Days = 3650
    server_days: Days = 365
    ahead_days: Days = 90
    announced_seconds: Seconds = 60

    def __post_init__(self) -> None:
        """Raises ValueError, which names the fields, when renewing would gain nothing."""
        if not self.ca_days >= self.server_days > self.ahead_days:
            raise ValueError("caDays >= serverDays > aheadDays must hold")

    @property
    def lifetimes(self) -> Lifetimes:
        """The three times as `certs` takes them."""
        days = (self.ca_days, self.server_days, self.ahead_days)
        return Lifetimes(*(timedelta(days=each) for each in days))


class Webhook(Section, frozen=True):
    """Where the webhook listens, its Service, and where its certificates are kept.

    Without `host` and `port` it listens on all addresses at 9443, or where its URL points.
    Certificates are in the Secret `secret`, or in the folder `certDir` if that is given.
    `drainSeconds` is how long reviews are still taken after SIGTERM: 10 behind a Service, which
    learns late that a replica goes, and 0 by URL.
    """

    host: str | None = None
    port: Port | None = None
    service: str = "muster-webhook"
    secret: str = "muster-webhook-certificates"  # noqa: S105 - a name, nothing secret
    cert_dir: str | None = None
    certificates: Certificates = Certificates()
    drain_seconds: Annotated[float, Meta(ge=0)] | None = None


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
    """The webhook's part; `url` instead of the Service. Raises ConfigError."""
    part = file.webhook
    target: ServiceTarget | UrlTarget
    if url is None:
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
        lifetimes=part.certificates.lifetimes,
        announced_seconds=part.certificates.announced_seconds,
        drain_seconds=drain if part.drain_seconds is None else part.drain_seconds,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
