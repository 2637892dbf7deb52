"""Requests for capacity as the controllers see them, and how many a namespace may have."""

from typing import Final

import msgspec

from api.constants import ANNOTATION_ATTEMPT, POD_TEMPLATE, PROVISIONING_REQUEST
from controllers.runtime.rate_limit import NamespacePace
from kube.base.clock import Clock
from kube.client.decoding import Decoder
from kube.client.meta import ObjectMeta
from kube.client.resources import Resource

REQUESTS = Resource(*PROVISIONING_REQUEST)
POD_TEMPLATES = Resource(*POD_TEMPLATE)

MOST_REQUESTS: Final = 100
"""Open requests of one namespace; its other roots take turns."""

_BURST: Final = 20
"""Requests of one namespace that may be made or deleted at once; then one each second."""

# What ends a request; the first of these that is True says why. Whatever it had is not kept.
_FAILURES: Final = ("Failed", "CapacityRevoked")
_ENDS: Final = (*_FAILURES, "BookingExpired")
_LONGEST_TEXT: Final = 300
"""Characters of the autoscaler's reason that are shown."""

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


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, gc=False):
    conditions: list[_Condition] = []


class _RawRequest(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class CapacityRequest(msgspec.Struct, gc=False):
    """A ProvisioningRequest that Muster made: what it asks for, and how it ended.

    `pod_sets` has the count of each PodTemplate. `ended` is the condition that ended it, empty
    while it may still help, and `why` the autoscaler's words.
    """

    metadata: ObjectMeta
    class_name: str
    pod_sets: dict[str, int]
    ended: str = ""
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether the autoscaler said that nothing comes of it."""
        return self.ended in _FAILURES

    @property
    def attempt(self) -> int:
        """Which request it is since its root waits for the same; 1 is the first."""
        said = self.metadata.annotations.get(ANNOTATION_ATTEMPT, "")
        return int(said) if said.isascii() and said.isdigit() and len(said) < 4 else 1


_request = Decoder(_RawRequest)


def decode_request(data: bytes) -> CapacityRequest:
    """A ProvisioningRequest. Raises msgspec.DecodeError."""
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
    """Which roots of a namespace may have a request, and how fast requests may change there.

    Whatever one namespace asks for takes nothing from others but these bounded writes.
    """

    def __init__(self, clock: Clock, most: int = MOST_REQUESTS) -> None:
        """`most` is the number of requests of one namespace."""
        self._pace = NamespacePace(clock, _BURST, 1.0)
        self._most = most
        self._holders: dict[str, dict[RootKey, None]] = {}
        self._waiting: dict[str, dict[RootKey, None]] = {}

    def take(self, key: RootKey) -> bool:
        """Whether the root may have a request; if not it waits, and `release` names it."""
        holders = self._holders.get(key[1], {})
        if key not in holders and len(holders) >= self._most:
            self._waiting.setdefault(key[1], {})[key] = None
            return False
        self.hold(key)
        return True

    def hold(self, key: RootKey) -> None:
        """The root has a request, whatever the limit says."""
        self._holders.setdefault(key[1], {})[key] = None
        self._forget(self._waiting, key)

    def release(self, key: RootKey) -> RootKey | None:
        """The root needs no request; the root that may have one instead."""
        namespace = key[1]
        self._forget(self._waiting, key)
        self._forget(self._holders, key)
        # Also if it had none: another that it was woken for may be the one that needs none.
        if len(self._holders.get(namespace, ())) >= self._most:
            return None
        return next(iter(self._waiting.get(namespace, ())), None)

    def wait(self, namespace: str) -> float:
        """Seconds until a request may be made or deleted there; 0 counts as one that is."""
        return self._pace.wait(namespace)

    @staticmethod
    def _forget(table: dict[str, dict[RootKey, None]], key: RootKey) -> None:
        """Remove a key from its namespace's; the memory of an empty namespace is given back."""
        keys = table.get(key[1], {})
        if key in keys:
            del keys[key]
            if not keys:
                del table[key[1]]
