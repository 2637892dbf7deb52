"""The operations of the suites on a cluster, in addition to its API."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Cluster(Protocol):
    """A running cluster with simulated nodes.

    Every method is safe to call from any event loop: the servers are separate processes.
    """

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def audit_log(self) -> Path | None:
        """Path of the API server's audit log, if known."""
        ...

    async def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        wait: bool = True,
    ) -> None:
        """Add a node that becomes Ready and runs its bound pods; cpu 8, memory 32Gi, 110 pods."""

    async def remove_node(self, name: str) -> None: ...

    async def leave_namespace(self, name: str) -> None:
        """Delete a namespace that is no longer needed, unless the cluster ends anyway.

        A deletion costs the Kubernetes servers 0.2 s of CPU time.
        """

    async def finish_pods(self, namespace: str, selector: str, phase: str = "Succeeded") -> int:
        """End running pods by label selector, in phase Succeeded or Failed; return their number."""

    async def stop_apiserver(self) -> None:
        """Make the API server unreachable; its data is kept."""

    async def start_apiserver(self) -> None: ...

    async def kinds_installed(self) -> None:
        """Make the cluster's garbage collector discover the kinds of newly created CRDs.

        Kubernetes' collector discovers new kinds when it starts, and then every 30 s.
        """

    async def stop(self) -> None: ...
