"""ProvisioningRequests as the controllers read them, and their limits for each namespace."""

from typing import Final

import msgspec

from api.constants import ANNOTATION_ATTEMPT, POD_TEMPLATE, PROVISIONING_REQUEST
from controllers.cache.decoding import Condition
from controllers.runtime.rate_limit import NamespacePace
from kube.base.clock import Clock
from kube.client.decoding import Decoder
from kube.client.meta import ObjectMeta

REQUESTS = PROVISIONING_REQUEST
POD_TEMPLATES = POD_TEMPLATE

# Without a limit, one tenant could fill the autoscaler's queue with requests.
MOST_REQUESTS: Final = 100
"""Open requests of one namespace. Further roots of the namespace wait."""

_BURST: Final = 20
"""Requests of one namespace that may be created or deleted at once; after that, one a second."""

# The conditions that end a request. Of those that are True, the first in this order is the reason:
# a failure counts more than a booking that expired.
_FAILURES: Final = ("Failed", "CapacityRevoked")
_ENDS: Final = (*_FAILURES, "BookingExpired")
_LONGEST_TEXT: Final = 300
"""Characters of the autoscaler's reason that Muster shows."""

RootKey = tuple[str, str, str]
"""Kind, namespace and name of a root group."""


class _Reference(msgspec.Struct, gc=False):
    name: str = ""


class _PodSet(msgspec.Struct, rename="camel", gc=False):
    pod_template_ref: _Reference = msgspec.field(default_factory=_Reference)
    count: int = 0


class _Spec(msgspec.Struct, rename="camel", gc=False):
    provisioning_class_name: str = ""
    pod_sets: list[_PodSet] = msgspec.field(default_factory=list)


class _Status(msgspec.Struct, gc=False):
    conditions: list[Condition] = []


class _RawRequest(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class CapacityRequest(msgspec.Struct, gc=False):
    """A ProvisioningRequest that Muster created, and its result.

    `pod_sets` has the pod count of each PodTemplate. `ended` is the condition that ended the
    request, empty while the request is open. `why` is the autoscaler's reason and message.
    """

    metadata: ObjectMeta
    class_name: str
    pod_sets: dict[str, int]
    ended: str = ""
    why: str = ""

    @property
    def failed(self) -> bool:
        """True if the autoscaler reports that the request brings no capacity."""
        return self.ended in _FAILURES

    @property
    def attempt(self) -> int:
        """The number of this request among those for the same pods of its root, from 1."""
        # Users can edit the annotation. A value that is not a short number counts as the first
        # attempt.
        said = self.metadata.annotations.get(ANNOTATION_ATTEMPT, "")
        return int(said) if said.isascii() and said.isdigit() and len(said) < 4 else 1


_request = Decoder(_RawRequest)


def decode_request(data: bytes) -> CapacityRequest:
    """Decode a ProvisioningRequest. Raises msgspec.DecodeError."""
    raw = _request(data)
    spec = raw.spec
    said = {it.type: it for it in raw.status.conditions if it.status == "True"}
    end = next((said[each] for each in _ENDS if each in said), None)
    request = CapacityRequest(
        metadata=raw.metadata,
        class_name=spec.provisioning_class_name,
        pod_sets={it.pod_template_ref.name: it.count for it in spec.pod_sets},
    )
    if end is not None:
        request.ended = end.type
        request.why = f"{end.reason}: {end.message}"[:_LONGEST_TEXT]
    return request


class NamespaceLimits:
    """Limits of the requests in each namespace: their number and the rate of their changes.

    They bound what one namespace can cost the others.
    """

    def __init__(self, clock: Clock) -> None:
        self._pace = NamespacePace(clock, _BURST, 1.0)
        # Dicts serve as ordered sets: the root that has waited longest gets the next free request.
        self._holders: dict[str, dict[RootKey, None]] = {}
        self._waiting: dict[str, dict[RootKey, None]] = {}

    def take(self, key: RootKey) -> bool:
        """Return True if the root may have a request; otherwise it waits for `release`."""
        holders = self._holders.get(key[1], {})
        if key not in holders and len(holders) >= MOST_REQUESTS:
            self._waiting.setdefault(key[1], {})[key] = None
            return False
        self.hold(key)
        return True

    def hold(self, key: RootKey) -> None:
        """Record that the root has a request, even beyond the limit."""
        # A request found in the cache exists already. If it did not count, a new leader would
        # exceed the limit.
        self._holders.setdefault(key[1], {})[key] = None
        self._forget(self._waiting, key)

    def release(self, key: RootKey) -> RootKey | None:
        """Remove the root and return the root that may have a request instead, if any."""
        namespace = key[1]
        self._forget(self._waiting, key)
        self._forget(self._holders, key)
        # This holds for a root without a request, too: it may have been woken for a free slot that
        # it does not need, and the next root can use.
        if len(self._holders.get(namespace, ())) >= MOST_REQUESTS:
            return None
        return next(iter(self._waiting.get(namespace, ())), None)

    def wait(self, namespace: str) -> float:
        """Return the seconds until a request may change in the namespace; 0 counts as a change."""
        return self._pace.wait(namespace)

    @staticmethod
    def _forget(table: dict[str, dict[RootKey, None]], key: RootKey) -> None:
        """Remove a key from its namespace, and the namespace once it is empty."""
        keys = table.get(key[1], {})
        if key in keys:
            del keys[key]
            if not keys:
                del table[key[1]]
