"""The fields of native PodGroups that the API server keeps.

Some have a feature gate of the API server, and no discovery shows gates: without its gate, a field
is dropped without an error. So one PodGroup is created as a dry run, which stores nothing.
"""

from typing import Final

import structlog

from api.constants import NATIVE_POD_GROUP
from kube.base.errors import KubeError
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import Resource

_GROUPS: Final = Resource(*NATIVE_POD_GROUP)
_TOPOLOGY: Final = {"topology": [{"key": "kubernetes.io/hostname"}]}
# Admission fills in preemptionPolicy, if its gate is on.
_SPEC: Final[Json] = {
    "schedulingPolicy": {"gang": {"minCount": 1}},
    "schedulingConstraints": _TOPOLOGY,
}

_log = structlog.get_logger()


class KeptFields:
    """The result of the last dry run."""

    def __init__(self, client: Client, namespace: str) -> None:
        """Create it for dry runs in this namespace, which need the right to create PodGroups."""
        self._client = client
        self._namespace = namespace
        self._problem = ""
        self.fields: frozenset[str] = frozenset()

    async def probe(self) -> None:
        """Request a dry run. After an error, no field with a gate counts as kept."""
        metadata = {"name": "muster-dry-run", "namespace": self._namespace}
        obj = {"apiVersion": _GROUPS.api_version, "kind": _GROUPS.kind, "metadata": metadata}
        try:
            made = await self._client.create(_GROUPS, obj | {"spec": _SPEC}, dry_run=True)
        except KubeError as error:
            self.fields = frozenset()
            self._report(str(error))
            return
        self.fields = frozenset(made.get("spec") or ())
        self._problem = ""

    def _report(self, problem: str) -> None:
        """Log an error, once as long as it is the same."""
        if problem != self._problem:
            _log.error(
                "failed to check which fields of native PodGroups are kept",
                kind=_GROUPS.full_name,
                namespace=self._namespace,
                error=problem,
            )
        self._problem = problem
