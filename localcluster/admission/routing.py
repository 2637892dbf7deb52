"""Addresses of webhook Services: their ready endpoints, as with --enable-aggregator-routing."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from localcluster.base import resources
from localcluster.base.store import Store

Address = tuple[str, int]
SERVICE_LABEL = "kubernetes.io/service-name"


class Routing:
    """Resolver from (namespace, name) to a stand-in address if it exists, else a ready endpoint."""

    def __init__(self, store: Store, stand_ins: Mapping[tuple[str, str], Address]) -> None:
        """Create a resolver; `stand_ins` may change while it is in use."""
        self._store = store
        self._substitutes = stand_ins
        self._turn = count()

    def get(self, service: tuple[str, str]) -> Address | None:
        """Return an address to connect to, round-robin over several; None if there is none."""
        if service in self._substitutes:
            return self._substitutes[service]
        ready = self._ready(service)
        return ready[next(self._turn) % len(ready)] if ready else None

    def _ready(self, service: tuple[str, str]) -> list[Address]:
        namespace, name = service
        stored = self._store.collection(resources.ENDPOINT_SLICES.collection).objects
        return [
            (address, port["port"])
            for (where, _), found in sorted(stored.items())
            if where == namespace and _labels(found.obj).get(SERVICE_LABEL) == name
            for port in (found.obj.get("ports") or ())[:1]
            for endpoint in found.obj.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready", True)
            for address in endpoint["addresses"]
        ]


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels
