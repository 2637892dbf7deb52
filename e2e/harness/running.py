"""A running cluster with Muster, for the duration of a block.

Both are processes: they do not depend on an event loop and persist between tests.
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from e2e.harness import muster as processes
from e2e.harness import permissions
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import CONFIG, NAMESPACE, Muster
from kube.client.meta import Json


class Started(Cluster, Protocol):
    """A cluster that can be started."""

    async def start(self) -> None: ...


@contextmanager
def started(cluster: Started) -> Iterator[None]:
    """Run the cluster until the end of the block."""
    with asyncio.Runner() as runner:
        try:
            runner.run(cluster.start())
            yield
        finally:
            runner.run(cluster.stop())


@contextmanager
def installed(
    cluster: Cluster, *, keep_audit: Path | None = None, **config: Any
) -> Iterator[Muster]:
    """Run all three processes; at the end no request of theirs may have lacked a permission.

    `config` has fields of the configuration that differ from the default. With `groups`, the
    accounts get the rights to create native groups.
    """
    muster = Muster(cluster.kubeconfig, config={**CONFIG, **config})
    with asyncio.Runner() as runner:
        try:
            runner.run(muster.install())
            runner.run(cluster.kinds_installed())
            runner.run(muster.start(*processes.ALL))
            yield muster
            runner.run(muster.uninstall())
            _check_rights(cluster.audit_log, keep_audit, muster.manifests())
        finally:
            muster.stop()


async def no_deployments(cluster: ControlPlane) -> None:
    """Delete the manifests' Deployments: here their processes run outside the cluster."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    async with cluster.client() as rest:
        (await rest.delete(path, {"propagationPolicy": "Background"})).ok()


def _check_rights(audit: Path | None, keep: Path | None, applied: list[Json]) -> None:
    if audit is None:
        return
    if keep is not None:
        shutil.copyfile(audit, keep)
    refused = permissions.refused(audit, permissions.given(applied))
    assert not refused, "a right is missing in manifests/base:\n" + "\n".join(refused)
