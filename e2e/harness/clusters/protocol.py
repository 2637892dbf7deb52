"""What the suites may do to a cluster besides calling its API."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Cluster(Protocol):
    """A running cluster, its nodes simulated.

    Every method is safe to call from any event loop: the servers are processes of their own.
    """

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def audit_log(self) -> Path | None:
        """Where the API server writes a line about each request, if that is known."""
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
        """A node that becomes Ready and runs what is bound to it; cpu 8, memory 32Gi, 110 pods."""

    async def remove_node(self, name: str) -> None: ...

    async def leave_namespace(self, name: str) -> None:
        """Nobody needs this namespace any more: it is deleted, unless the cluster ends anyway.

        To delete one takes the servers of Kubernetes 0.2 s of processor time.
        """

    async def finish_pods(self, namespace: str, selector: str, phase: str = "Succeeded") -> int:
        """Ends running pods by label selector, in phase Succeeded or Failed; gives their number."""

    async def stop_apiserver(self) -> None:
        """From now on the API server cannot be reached; its data stay."""

    async def start_apiserver(self) -> None: ...

    async def kinds_installed(self) -> None:
        """CRDs were created: from now on the cluster's garbage collector must know their kinds.

        That of Kubernetes looks for new kinds when it starts, and then every 30 s.
        """

    async def stop(self) -> None: ...
