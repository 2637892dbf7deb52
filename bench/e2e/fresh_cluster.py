"""A fresh control plane with the nodes of a case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.e2e import claims, victims
from bench.e2e.cases import Case
from bench.e2e.objects import namespaces, node
from bench.e2e.subjects import OPTIONS
from bench.e2e.wire import Wire
from e2e.controlplane.controlplane import ControlPlane
from e2e.support import kubeconfig

SERVERS = ("etcd", "kube-apiserver")
_CONNECTIONS = 48


@asynccontextmanager
async def fresh_cluster(case: Case) -> AsyncIterator[tuple[ControlPlane, Wire]]:
    """A fresh one, with the case's nodes: a server that has worked for a while is faster."""
    async with (
        ControlPlane(OPTIONS) as plane,
        Wire(kubeconfig.read(plane.kubeconfig), _CONNECTIONS) as wire,
    ):
        await wire.post("/api/v1/namespaces", namespaces(case))
        await wire.post("/api/v1/nodes", [node(case, index) for index in range(case.first)])
        if case.claims is not None:
            await claims.prepare(wire, case)
        if case.prioritized:
            await wire.post("/apis/scheduling.k8s.io/v1/priorityclasses", victims.classes())
        yield plane, wire
