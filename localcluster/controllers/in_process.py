"""The Api for the controllers inside the cluster: plain objects in and out."""

from collections.abc import AsyncIterator

from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions, Object, User, WriteOptions
from localcluster.base.resources import ResourceInfo
from localcluster.base.watch import Watch as Stream
from localcluster.controllers.base.api_protocol import Kind, Propagation, Watch, WatchType
from localcluster.registry.api import Api

USER = User("system:kube-controller-manager", ("system:authenticated",))
OPTIONS = WriteOptions(field_manager="kube-controller-manager")
_TYPES: dict[str, WatchType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED"}


class InProcess:
    """The controllers' Server protocol over an Api.

    The results are shared with the store, so callers must not change them: copies of each event and
    result would take a third of a busy cluster's CPU time.
    """

    def __init__(self, api: Api) -> None:
        """Use an Api in this process."""
        self._api = api

    async def watch(self, kind: Kind) -> Watch:
        """List the kind in all namespaces and watch it from that revision."""
        info = self._info(kind)
        page = self._api.list(info)
        stream = self._api.watch(info, revision=str(page.revision))
        return Watch([item.obj for item in page.items], _events(stream))

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return the current object, or None if it does not exist."""
        stored = self._api.store.get(self._info(kind).collection, (namespace, name))
        return stored.obj if stored else None

    async def create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        """Create and return the object."""
        info = self._info(kind)
        stored = await self._api.create(info, obj, namespace, user=USER, options=OPTIONS)
        return stored.obj

    async def update(self, kind: Kind, obj: Object, *, subresource: str = "") -> Object:
        """Replace the object or its subresource; a stale resourceVersion is a conflict."""
        stored = await self._api.update(
            self._info(kind),
            obj,
            obj["metadata"].get("namespace", ""),
            subresource=subresource,
            user=USER,
            options=OPTIONS,
        )
        return stored.obj

    async def delete(
        self,
        kind: Kind,
        obj: Object,
        *,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> Object | None:
        """Delete the object with that UID.

        Returns None if it is removed, else its remaining state.
        """
        meta = obj["metadata"]
        options = DeleteOptions(
            grace_period_seconds=grace_seconds, propagation_policy=propagation, uid=meta["uid"]
        )
        removal = await self._api.remove(
            self._info(kind), meta["name"], meta.get("namespace", ""), user=USER, options=options
        )
        return None if removal.gone else removal.value.obj

    def _info(self, kind: Kind) -> ResourceInfo:
        """Return the served kind, or a stand-in with an empty collection while it is not served."""
        known = self._api.registry.lookup(kind.group, kind.version, kind.plural)
        return known or ResourceInfo(kind.group, kind.version, kind.plural, kind.kind, custom=True)


async def _events(stream: Stream) -> AsyncIterator[tuple[WatchType, Object]]:
    try:
        async for event in stream:
            if event.type in _TYPES:
                yield _TYPES[event.type], event.value.obj
    except StatusError:
        stream.close()
        raise
