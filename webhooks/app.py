"""The webhook process: caches, certificates, listener, maintenance, graceful shutdown."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from api import features
from api.features import FeatureGates
from api.integration.common.autoscalers import Autoscalers
from api.integration.common.native import GroupsApi
from api.scheduler_names import USUAL, SchedulerNames
from certs.authority import DEFAULT_LIFETIMES, Lifetimes
from certs.context import server_context
from certs.sources import MountedFolder, OwnAuthority, Source
from certs.stores import FolderStore, SecretStore, Store
from kube.base.clock import Clock
from kube.client.client import Client
from kube.informers.quarantine import Quarantine
from webhooks.cache.informers import ClusterInformers
from webhooks.routing.reviewer import Reviewer
from webhooks.server.maintenance import ANNOUNCED_SECONDS, Maintenance
from webhooks.server.readiness import SERVING, Readiness
from webhooks.server.registration import ServiceTarget, Target
from webhooks.server.routes import build
from webhooks.server.server import Listener, address_of, bound

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """The address of the webhook and the storage of its certificates.

    - By Service, certificates are in the Secret `secret` of the Service's namespace, which all
      replicas share. By URL, or with `cert_dir`, they are in that folder; without one they end with
      the process.
    - With `mounted_certificates` another component (cert-manager) owns them, and they are only
      read.
    - `announced_seconds`: how long a next CA is announced before it is used.
    - `drain_seconds`: how long the webhook accepts reviews after the signal to stop, while API
      servers learn that this replica shuts down.
    - `scheduler_names` are Muster's. `autoscalers` has the settings for autoscalers in the pods of
      new Jobs. `gates` are the features that are on.
    - `groups_api`: the API in which new owners get groups. `namespace` is Muster's own.
    """

    target: Target
    host: str = "0.0.0.0"  # noqa: S104 - a pod is called from outside
    port: int = 9443
    cert_dir: Path | None = None
    secret: str = "muster-webhook-certificates"  # noqa: S105 - a name, nothing secret
    mounted_certificates: Path | None = None
    lifetimes: Lifetimes = DEFAULT_LIFETIMES
    announced_seconds: float = ANNOUNCED_SECONDS
    drain_seconds: float = 0.0
    scheduler_names: SchedulerNames = USUAL
    autoscalers: Autoscalers = field(default_factory=Autoscalers)
    gates: FeatureGates = features.USUAL
    groups_api: GroupsApi = GroupsApi.MUSTER
    namespace: str = "muster-system"


async def run(
    client: Client,
    config: WebhookConfig,
    stop: asyncio.Event,
    *,
    readiness: Readiness | None = None,
    quarantine: Quarantine | None = None,
    clock: Clock | None = None,
) -> None:
    """Serve until `stop` is set, then drain.

    `readiness` shows the caller what `/readyz` reports, and `quarantine` lists undecodable objects.
    Errors of the API server are retried. Raises OSError if the address is taken or the folder
    cannot be written, and an exception group for a bug of ours.
    """
    readiness = readiness or Readiness()
    # Certificates must be valid by the clock of API servers, as these have to accept them.
    clock = clock or client.server_clock
    # Bind first: a taken address fails before any certificate is created.
    sock = bound(config.host, config.port)
    with sock, tempfile.TemporaryDirectory(prefix="muster-webhook-") as scratch:
        source = _source(client, config, Path(scratch))
        maintenance = Maintenance(
            client,
            config.target,
            source,
            clock,
            readiness,
            config.announced_seconds,
            config.scheduler_names,
        )
        async with asyncio.TaskGroup() as group:
            informers = ClusterInformers(
                client,
                quarantine,
                config.scheduler_names,
                config.gates,
                groups_api=config.groups_api,
                namespace=config.namespace,
            )
            reviewer = Reviewer(informers, config.autoscalers)
            work = group.create_task(_work(informers, reviewer, sock, maintenance, readiness))
            await stop.wait()
            # First unready, so that endpoints drop this replica while it still accepts reviews.
            readiness.unmet(SERVING, "the process was stopped")
            await clock.sleep(config.drain_seconds)
            work.cancel()


async def _work(
    informers: ClusterInformers,
    reviewer: Reviewer,
    sock: socket.socket,
    maintenance: Maintenance,
    readiness: Readiness,
) -> None:
    """Run all concurrent tasks until cancelled; reviews in flight still get their response."""
    async with asyncio.TaskGroup() as group:
        group.create_task(informers.run())
        for check, synced in informers.synced.items():
            group.create_task(_await_cache(check, synced, readiness))
        # The informers run already: a replica that waits for certificates fills its caches
        # meanwhile.
        serving = await maintenance.certificates()
        context = server_context(serving)
        listener = Listener(build(reviewer, readiness), context, sock)
        async with listener:
            log.info("webhook is listening", address=address_of(sock))
            readiness.met(SERVING)
            await maintenance.run(context, serving, listener.address)


async def _await_cache(check: str, synced: asyncio.Event, readiness: Readiness) -> None:
    await synced.wait()
    readiness.met(check)


def _source(client: Client, config: WebhookConfig, scratch: Path) -> Source:
    if config.mounted_certificates is not None:
        return MountedFolder(config.mounted_certificates)
    store: Store = FolderStore(config.cert_dir or scratch)
    if config.cert_dir is None and isinstance(config.target, ServiceTarget):
        store = SecretStore(client, config.secret, config.target.namespace)
    return OwnAuthority(store, config.target.names, config.lifetimes)
