"""A fresh control plane with the nodes of a case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support import kubeconfig
from tools.bench.end_to_end import claims, victims
from tools.bench.end_to_end.cases import Case
from tools.bench.end_to_end.objects import namespaces, node
from tools.bench.end_to_end.subjects import OPTIONS
from tools.bench.end_to_end.wire import Wire

SERVERS = ("etcd", "kube-apiserver")
_CONNECTIONS = 48


@asynccontextmanager
async def fresh_cluster(case: Case) -> AsyncIterator[tuple[ControlPlane, Wire]]:
    """Run a fresh control plane with the case's nodes: a server that is warm is faster."""
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
