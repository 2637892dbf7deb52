"""The Server port on the API server in the same process: no transport, the whole pipeline."""

from collections.abc import AsyncIterator

from localcluster.api import Api
from localcluster.errors import StatusError
from localcluster.hooks import DeleteOptions, User
from localcluster.life import port
from localcluster.life.objects import Obj, key_of, uid_of
from localcluster.life.port import Kind, Propagation, WatchType
from localcluster.resources import ResourceInfo
from localcluster.watch import Watch

CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated", "system:masters"))


class InProcess:
    """Asks the API server by method calls, as the user that controllers run as."""

    def __init__(self, api: Api, user: User = CONTROLLERS) -> None:
        self._api = api
        self._user = user

    async def watch(self, kind: Kind) -> port.Watch:
        """List and watch; a kind that is not served yet is an empty one."""
        info = self._info(kind)
        page = self._api.list(info)
        stream = self._api.watch(info, revision=str(page.revision))
        return port.Watch([stored.obj for stored in page.items], _changes(stream))

    async def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """The object as it is now, None when there is none."""
        try:
            return self._api.get(self._info(kind), name, namespace).obj
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def create(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        """Create and return the object."""
        stored = await self._api.create(self._info(kind), obj, namespace, user=self._user)
        return stored.obj

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace the object or its sub-resource."""
        namespace, name = key_of(obj)
        stored = await self._api.update(
            self._info(kind), obj, namespace, name=name, subresource=subresource, user=self._user
        )
        return stored.obj

    async def delete(
        self,
        kind: Kind,
        obj: Obj,
        *,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> Obj | None:
        """Delete the object of that UID; what is left of it."""
        namespace, name = key_of(obj)
        options = DeleteOptions(
            grace_period_seconds=grace_seconds, propagation_policy=propagation, uid=uid_of(obj)
        )
        removal = await self._api.remove(
            self._info(kind), name, namespace, user=self._user, options=options
        )
        return None if removal.gone else removal.value.obj

    def _info(self, kind: Kind) -> ResourceInfo:
        found = self._api.registry.lookup(kind.group, kind.version, kind.plural)
        return found or ResourceInfo(kind.group, kind.version, kind.plural, kind.kind)


async def _changes(stream: Watch) -> AsyncIterator[tuple[WatchType, Obj]]:
    async for event in stream:
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                yield event.type, event.value.obj
            case _:
                continue
