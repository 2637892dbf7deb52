"""The common owner of a group's pods: the highest owner above all of them that is not a pod.

The lookup starts at the pods' controlling references and reads only the metadata of each owner.
Pods may carry any reference, so an owner counts only if it has the UID that the reference states.
If the account may not read an owner, the reference counts as it is, and nothing above it is known.
The lookup first asks whether the account may read the kind: no user shall make Muster send requests
that its account has no right to.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, Protocol, TypeVar, cast

import msgspec
import structlog

from api.constants import GROUP, POD
from api.names import is_dns_label, is_dns_subdomain, is_path_segment
from controllers.runtime.controller import METADATA
from kube.base.clock import Clock
from kube.base.errors import Forbidden, KubeError, NotFound
from kube.client.decoding import Decoder
from kube.client.meta import ObjectMeta, OwnerReference, decode_partial
from kube.client.resources import Resource

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

HIGHEST: Final = 8
"""Owners above a pod that are read."""

MOST_CONTROLLERS: Final = 8
"""Direct owners of a group's pods that are read. With more, the pods have no common owner."""

_KEPT_SECONDS: Final = 60.0
"""Seconds for which a result is reused without another request."""

_MOST_KEPT: Final = 8192
"""Results that are kept. Beyond this, the oldest is dropped and requested again."""


class OwnerReader(Protocol):
    """The requests of the process that is the leader."""

    async def read(self, path: str, form: str, namespace: str) -> bytes:
        """Return the response to a GET for an object of a namespace. Raises kube errors."""

    async def may(self, verb: str, resource: Resource, namespace: str) -> bool:
        """Return True if the account has the right. Raises kube errors."""


_log = structlog.get_logger()


class Unknown(Enum):
    """The reason why the owner of an object is unknown."""

    ABSENT = auto()
    """The object does not exist, or another one has its name."""
    UNREADABLE = auto()
    """The account may not read it."""
    FAILED = auto()
    """The request failed this time."""


Reference = tuple[str, str, str, str]
"""API version, kind, name and UID of an object."""

Above = OwnerReference | None | Unknown
"""The controller of an object, None if it has none, or the reason why it is unknown."""


@dataclass(frozen=True, slots=True)
class CommonOwner:
    """The common owner of pods; `certain` if all requests succeeded."""

    owner: OwnerReference | None
    certain: bool = True


class _ApiResource(msgspec.Struct, gc=False):
    name: str = ""
    kind: str = ""
    namespaced: bool = True


class _ApiResources(msgspec.Struct, gc=False):
    resources: list[_ApiResource] = []


_resources = Decoder(_ApiResources)


class _Kept(Generic[K, V]):
    """Values for a minute; the oldest is dropped if there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> tuple[V] | None:
        at, value = self._values.get(key, (float("-inf"), None))
        if self._clock.monotonic() - at >= _KEPT_SECONDS:
            return None
        return (cast("V", value),)

    def put(self, key: K, value: V) -> None:
        self._values.pop(key, None)
        self._values[key] = (self._clock.monotonic(), value)
        if len(self._values) > _MOST_KEPT:
            self._values.popitem(last=False)


class OwnerChains:
    """A lookup of common owners that keeps its results for a minute, as many pods share owners."""

    def __init__(self, reader: OwnerReader, clock: Clock) -> None:
        self._reader = reader
        self._kinds: _Kept[tuple[str, str], Resource | Unknown] = _Kept(clock)
        self._allowed: _Kept[tuple[str, Resource], bool] = _Kept(clock)
        self._above: _Kept[tuple[str, Reference], Above] = _Kept(clock)

    async def common(self, namespace: str, controllers: Iterable[Reference | None]) -> CommonOwner:
        """Return the common owner of pods with these controllers. Raises no kube errors."""
        found = list(controllers)
        # A pod without a controller has no owner in common with the others.
        if None in found or not 0 < len(found) <= MOST_CONTROLLERS:
            return CommonOwner(None)
        tops = []
        for known in sorted(it for it in found if it is not None):
            top = await self._top(namespace, OwnerReference(*known, controller=True))
            # One pod without an owner above it settles the result, so skip the other requests.
            if top.owner is None:
                return top
            tops.append(top)
        first = tops[0]
        same = all(it.owner == first.owner for it in tops)
        return CommonOwner(first.owner if same else None, all(it.certain for it in tops))

    async def _top(self, namespace: str, reference: OwnerReference) -> CommonOwner:
        """Return the highest owner that is not a pod, from a controlling reference upwards."""
        best: OwnerReference | None = None
        step: Above = reference
        # Bounded, as users can write references that form a cycle.
        for _ in range(HIGHEST):
            assert isinstance(step, OwnerReference)
            above = await self._above_of(namespace, step)
            # The reference is stale or invented, so it must not become the owner of a group.
            if above is Unknown.ABSENT:
                break
            if _may_own(step):
                best = step
            # The best owner so far may not be the highest one. The caller must not change the
            # group's owner.
            if above is Unknown.FAILED:
                return CommonOwner(best, certain=False)
            if not isinstance(above, OwnerReference):
                break
            step = above
        return CommonOwner(best)

    async def _above_of(self, namespace: str, reference: OwnerReference) -> Above:
        key = (namespace, _known(reference))
        kept = self._above.get(key)
        if kept is not None:
            return kept[0]
        resource = await self._resource(reference, namespace)
        above: Above = (
            resource
            if isinstance(resource, Unknown)
            else await self._controller_of(resource, namespace, reference)
        )
        # A failed request says nothing about the object, so the next call sends it again.
        if above is not Unknown.FAILED:
            self._above.put(key, above)
        return above

    async def _controller_of(
        self, resource: Resource, namespace: str, reference: OwnerReference
    ) -> Above:
        # The name ends up in the path of a request, and users can write any name.
        if not is_path_segment(reference.name) or not reference.name:
            return Unknown.ABSENT
        if not await self._may_get(resource, namespace if resource.namespaced else ""):
            return Unknown.UNREADABLE
        path = resource.path(namespace, reference.name)
        found = await self._fetched(path, METADATA, namespace)
        if isinstance(found, Unknown):
            return found
        meta = _metadata(found)
        if meta is None:
            return Unknown.FAILED
        return meta.controller if meta.uid == reference.uid else Unknown.ABSENT

    async def _may_get(self, resource: Resource, namespace: str) -> bool:
        kept = self._allowed.get((namespace, resource))
        if kept is not None:
            return kept[0]
        try:
            allowed = await self._reader.may("get", resource, namespace)
        except KubeError as error:
            _log.warning("failed to review permissions", kind=resource.full_name, error=str(error))
            allowed = False
        if not allowed:
            _log.info("the controllers may not read owners of this kind", kind=resource.full_name)
        self._allowed.put((namespace, resource), allowed)
        return allowed

    async def _resource(self, reference: OwnerReference, namespace: str) -> Resource | Unknown:
        """Return the resource of a reference's kind, from the API server's discovery."""
        key = (reference.api_version, reference.kind)
        kept = self._kinds.get(key)
        if kept is not None:
            return kept[0]
        group, _, version = reference.api_version.rpartition("/")
        # Users can write any API version, which ends up in the path of a request.
        if not is_dns_label(version) or (group and not is_dns_subdomain(group)):
            return Unknown.ABSENT
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        body = await self._fetched(path, "application/json", namespace)
        found = body if isinstance(body, Unknown) else _served(body, group, version, reference.kind)
        if found is not Unknown.FAILED:
            self._kinds.put(key, found)
        return found

    async def _fetched(self, path: str, form: str, namespace: str) -> bytes | Unknown:
        try:
            return await self._reader.read(path, form, namespace)
        except NotFound:
            return Unknown.ABSENT
        except Forbidden:
            return Unknown.UNREADABLE
        except KubeError as error:
            _log.warning("failed to read an owner", path=path, error=str(error))
            return Unknown.FAILED


def _known(reference: OwnerReference) -> Reference:
    return reference.api_version, reference.kind, reference.name, reference.uid


def _may_own(reference: OwnerReference) -> bool:
    """Return True if a group may have this owner: no pod, and no other group."""
    group = reference.api_version.rpartition("/")[0]
    return group != GROUP and (group, reference.kind) != (POD.group, POD.kind)


def _served(body: bytes, group: str, version: str, kind: str) -> Resource | Unknown:
    """Return the resource of a kind in the list of its group and version."""
    try:
        listed = _resources(body).resources
    except msgspec.DecodeError:
        return Unknown.FAILED
    for it in listed:
        if it.kind == kind and is_dns_label(it.name):  # no sub-resource
            return Resource(group, version, it.name, kind, namespaced=it.namespaced)
    return Unknown.ABSENT


def _metadata(body: bytes) -> ObjectMeta | None:
    try:
        return decode_partial(body).metadata
    except msgspec.DecodeError:
        return None
