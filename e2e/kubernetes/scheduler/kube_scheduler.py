"""kube-scheduler on a separate control plane, which decides but binds nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler.extender import Extender


class KubeScheduler(NamedTuple):
    """The control plane, its client, and the extender that records feasible nodes."""

    plane: ControlPlane
    rest: Rest
    extender: Extender


@asynccontextmanager
async def kube_scheduler(**more: Any) -> AsyncIterator[KubeScheduler]:
    """Start it without controllers and nodes that run pods; `more` are further `Options`."""
    with Extender() as extender:
        options = Options(
            controllers=False,
            kwok=False,
            jobset=False,
            scheduler=True,
            taint_nodes=False,
            extender=extender.url,
            **more,
        )
        async with ControlPlane(options) as plane, plane.client() as rest:
            yield KubeScheduler(plane, rest, extender)
