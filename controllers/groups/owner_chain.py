"""What the pods of a group have in common: the highest owner above them that is no pod.

Of each owner only the metadata is read, from the pods' controlling references upwards. Pods may
carry any reference, so little is believed: an owner counts if it has the UID that the reference
says. One that may not be read is taken at its word, and nothing above it is known. Whether a kind
may be read is asked first: nobody shall make Muster try what its account has no right to.
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
"""Owners above a pod that are looked at."""

MOST_CONTROLLERS: Final = 8
"""Direct owners of one group's pods that are looked at: with more they have none in common."""

_KEPT_SECONDS: Final = 60.0
"""Seconds for which an owner that was read is not read again."""

_MOST_KEPT: Final = 8192
"""Owners that are remembered. Of more, the oldest are read again."""


class Reader(Protocol):
    """The requests of the process that leads."""

    async def read(self, path: str, form: str, namespace: str) -> bytes:
        """GET a path in a form, for an object of a namespace. Raises kube errors."""

    async def may(self, verb: str, resource: Resource, namespace: str) -> bool:
        """Whether the process has the right. Raises kube errors."""


_log = structlog.get_logger()


class Unknown(Enum):
    """Why it is not known who owns an object."""

    ABSENT = auto()
    """There is no such object, or another of its name."""
    UNREADABLE = auto()
    """It may not be read."""
    FAILED = auto()
    """It could not be read now."""


Reference = tuple[str, str, str, str]
"""API version, kind, name and UID."""

Above = OwnerReference | None | Unknown
"""What manages an object, None for nothing."""


@dataclass(frozen=True, slots=True)
class Common:
    """What pods have in common; `certain` if everything could be read."""

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
    """Values for a minute, the latest of them if they are too many."""

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
    """Looks owners up, and keeps for a minute what it found: many pods have the same ones."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        """Nothing is read before it is asked."""
        self._reader = reader
        self._kinds: _Kept[tuple[str, str], Resource | Unknown] = _Kept(clock)
        self._allowed: _Kept[tuple[str, Resource], bool] = _Kept(clock)
        self._above: _Kept[tuple[str, Reference], Above] = _Kept(clock)

    async def common(self, namespace: str, controllers: Iterable[Reference | None]) -> Common:
        """What pods with these controlling references have in common. Raises no kube errors."""
        found = list(controllers)
        if None in found or not 0 < len(found) <= MOST_CONTROLLERS:
            return Common(None)
        tops = []
        for known in sorted(it for it in found if it is not None):
            top = await self._top(namespace, OwnerReference(*known, controller=True))
            if top.owner is None:
                return top
            tops.append(top)
        first = tops[0]
        same = all(it.owner == first.owner for it in tops)
        return Common(first.owner if same else None, all(it.certain for it in tops))

    async def _top(self, namespace: str, reference: OwnerReference) -> Common:
        """The highest owner that is no pod, from a controlling reference upwards."""
        best: OwnerReference | None = None
        step: Above = reference
        for _ in range(HIGHEST):
            assert isinstance(step, OwnerReference)
            above = await self._above_of(namespace, step)
            if above is Unknown.ABSENT:
                break
            if _may_own(step):
                best = step
            if above is Unknown.FAILED:
                return Common(best, certain=False)
            if not isinstance(above, OwnerReference):
                break
            step = above
        return Common(best)

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
        if above is not Unknown.FAILED:
            self._above.put(key, above)
        return above

    async def _controller_of(
        self, resource: Resource, namespace: str, reference: OwnerReference
    ) -> Above:
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
            _log.info("not allowed to read owners of this kind", kind=resource.full_name)
        self._allowed.put((namespace, resource), allowed)
        return allowed

    async def _resource(self, reference: OwnerReference, namespace: str) -> Resource | Unknown:
        """How the kind of a reference is served."""
        key = (reference.api_version, reference.kind)
        kept = self._kinds.get(key)
        if kept is not None:
            return kept[0]
        group, _, version = reference.api_version.rpartition("/")
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
    """Whether a group may go with it: not with one of its pods, nor with another group."""
    group = reference.api_version.rpartition("/")[0]
    return group != GROUP and (group, reference.kind) != (POD.group, POD.kind)


def _served(body: bytes, group: str, version: str, kind: str) -> Resource | Unknown:
    """The resource of a kind in the list of what its group and version have."""
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
