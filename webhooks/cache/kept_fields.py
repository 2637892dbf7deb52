"""The fields of native PodGroups that the API server keeps.

Some have a feature gate of the API server, and no discovery shows gates: without its gate, a field
is dropped without an error. So one PodGroup is created as a dry run, which stores nothing.
"""

from typing import Final

import structlog

from api.constants import NATIVE_POD_GROUP
from kube.base.clock import Clock
from kube.base.errors import STARTING, ApiError, KubeError
from kube.client.client import Client
from kube.client.meta import Json

_TOPOLOGY: Final = {"topology": [{"key": "kubernetes.io/hostname"}]}
# Admission fills in preemptionPolicy, if its gate is on.
_SPEC: Final[Json] = {
    "schedulingPolicy": {"gang": {"minCount": 1}},
    "schedulingConstraints": _TOPOLOGY,
}

_RETRY_SECONDS: Final = 1.0
"""Seconds between two dry runs after an error of the API server, until the first response."""

_log = structlog.get_logger()


class KeptFields:
    """The result of the last dry run."""

    def __init__(self, client: Client, namespace: str, clock: Clock) -> None:
        """Create it for dry runs in this namespace, which need the right to create PodGroups."""
        self._clock = clock
        self._client = client
        self._namespace = namespace
        self._problem = ""
        self._known = False
        self.fields: frozenset[str] = frozenset()

    async def probe(self) -> None:
        """Request a dry run; the first time, until the API server responds.

        If it is rejected, as without the right, no field with a gate counts as kept. After any
        other error, the last result stays.
        """
        rejected_until = self._clock.monotonic() + STARTING
        while (error := await self._attempt()) is not None:
            rejected = isinstance(error, ApiError) and error.refused
            # An API server that is starting responds with 403 for a moment.
            if rejected and self._clock.monotonic() >= rejected_until:
                self.fields = frozenset()
                break
            if self._known and not rejected:
                break
            await self._clock.sleep(_RETRY_SECONDS)
        self._known = True

    async def _attempt(self) -> KubeError | None:
        """Request a dry run, and return the error that it ended with, if any."""
        try:
            self.fields, self._problem = await self._dry_run(), ""
        except KubeError as error:
            self._report(str(error))
            return error
        return None

    async def _dry_run(self) -> frozenset[str]:
        """Return the fields of the spec that are kept. Raises kube errors."""
        metadata = {"generateName": "muster-dry-run-", "namespace": self._namespace}
        obj = {
            "apiVersion": NATIVE_POD_GROUP.api_version,
            "kind": NATIVE_POD_GROUP.kind,
            "metadata": metadata,
        }
        made = await self._client.create(NATIVE_POD_GROUP, obj | {"spec": _SPEC}, dry_run=True)
        return frozenset(made.get("spec") or ())

    def _report(self, problem: str) -> None:
        """Log an error, once as long as it is the same."""
        if problem != self._problem:
            _log.error(
                "failed to check which fields of native PodGroups are kept",
                kind=NATIVE_POD_GROUP.full_name,
                namespace=self._namespace,
                error=problem,
            )
        self._problem = problem
