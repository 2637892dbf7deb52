"""Any cluster by its kubeconfig; tests that need simulation are skipped on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from e2e.harness.support.rest import Rest


def _skip(what: str) -> NoReturn:
    pytest.skip(f"{what} needs a simulated cluster; this one was given by its kubeconfig")


class ExistingCluster:
    """A cluster that the suites neither start, disrupt nor stop."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    @property
    def audit_log(self) -> Path | None:
        return None

    async def start(self) -> None:
        """Do nothing: it runs already."""

    async def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        wait: bool = True,
    ) -> None:
        _skip("adding a node")

    async def remove_node(self, name: str) -> None:
        _skip("removing a node")

    async def leave_namespace(self, name: str) -> None:
        async with Rest.open(self._kubeconfig) as rest:
            await rest.delete(f"/api/v1/namespaces/{name}")

    async def finish_pods(self, namespace: str, selector: str, phase: str = "Succeeded") -> int:
        _skip("finishing pods on demand")

    async def stop_apiserver(self) -> None:
        _skip("stopping the API server")

    async def start_apiserver(self) -> None:
        _skip("starting the API server")

    async def kinds_installed(self) -> None:
        """Do nothing: its garbage collector discovers kinds by itself.

        The flows wait long enough.
        """

    async def stop(self) -> None:
        """Do nothing: the suites do not own it."""
