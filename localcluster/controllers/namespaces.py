"""The namespace controller: it deletes the contents of terminating namespaces."""

from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions, User
from localcluster.base.resources import NAMESPACES
from localcluster.base.store import CollectionId, Event
from localcluster.controllers.base.workqueue import Loop
from localcluster.registry.api import Api

USER = User(
    "system:serviceaccount:kube-system:namespace-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class NamespaceController:
    """Controller that empties namespaces, then removes their finalizer."""

    def __init__(self, api: Api) -> None:
        """Create the controller; it follows the store."""
        self._api = api
        self._left: dict[str, int] = {}  # by terminating namespace: objects not deleted yet
        self._loop: Loop[str] = Loop("namespace-controller", api.clock, self._visit, workers=1)
        api.store.subscribe(self._changed)

    async def start(self) -> None:
        """Start the controller."""
        await self._loop.start()

    async def stop(self) -> None:
        """Stop the controller."""
        await self._loop.stop()

    def _changed(self, collection: CollectionId, event: Event) -> None:
        namespace, name = event.value.key
        if collection == NAMESPACES.collection:
            going = "deletionTimestamp" in event.value.obj["metadata"]
            if event.type == "DELETED":
                self._left.pop(name, None)
            elif going:
                self._left.setdefault(name, 0)
                self._loop.queue.add(name)
        elif namespace in self._left:
            self._count(namespace, event)

    def _count(self, namespace: str, event: Event) -> None:
        """Visit the namespace again after a new object, or after the last deletion."""
        if event.type == "DELETED":
            self._left[namespace] -= 1
        if event.type == "ADDED" or self._left[namespace] <= 0:
            self._loop.queue.add(namespace)

    async def _visit(self, name: str) -> None:
        stored = self._api.store.get(NAMESPACES.collection, ("", name))
        if stored is None or name not in self._left:
            return
        self._left[name] = 0
        left = await self._empty(name)
        if left:
            self._left[name] += left
        else:
            body = stored.copy()
            body["spec"]["finalizers"] = []
            del body["metadata"]["resourceVersion"]
            await self._api.update(NAMESPACES, body, name=name, subresource="finalize", user=USER)

    async def _empty(self, namespace: str) -> int:
        """Delete every object that is not being deleted yet.

        Return the number of remaining objects.
        """
        left = 0
        for info in self._api.registry.stored():
            if not info.namespaced:
                continue
            for key in list(self._api.store.collection(info.collection).span(namespace)):
                stored = self._api.store.get(info.collection, key)
                if stored is None:
                    continue
                if "deletionTimestamp" in stored.obj["metadata"]:
                    left += 1
                    continue
                options = DeleteOptions(propagation_policy="Background")
                try:
                    removal = await self._api.remove(
                        info, key[1], namespace, user=USER, options=options
                    )
                except StatusError as error:
                    if error.code != 404:
                        raise
                else:
                    left += not removal.gone
        return left
