"""Namespaces that are being deleted: their contents go first."""

from localcluster.api import Api
from localcluster.errors import StatusError
from localcluster.hooks import DeleteOptions, User
from localcluster.resources import NAMESPACES
from localcluster.store import CollectionId, Event
from localcluster.worker import Worker

USER = User(
    "system:serviceaccount:kube-system:namespace-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class NamespaceController:
    """Empties namespaces, then takes off the finalizer that held them."""

    def __init__(self, api: Api) -> None:
        """Follow the store."""
        self._api = api
        self._going: set[str] = set()
        self._worker: Worker[str] = Worker("namespace-controller", self._visit)
        api.store.subscribe(self._changed)

    async def start(self) -> None:
        """Begin."""
        await self._worker.start()

    async def stop(self) -> None:
        """End."""
        await self._worker.stop()

    def _changed(self, collection: CollectionId, event: Event) -> None:
        namespace, name = event.value.key
        if collection == NAMESPACES.collection:
            going = "deletionTimestamp" in event.value.obj["metadata"]
            if event.type == "DELETED":
                self._going.discard(name)
            elif going:
                self._going.add(name)
                self._worker.add(name)
        elif namespace in self._going and event.type != "MODIFIED":
            self._worker.add(namespace)

    async def _visit(self, name: str) -> None:
        stored = self._api.store.get(NAMESPACES.collection, ("", name))
        if stored is None or name not in self._going:
            return
        if await self._empty(name):
            body = stored.copy()
            body["spec"]["finalizers"] = []
            del body["metadata"]["resourceVersion"]
            await self._api.update(NAMESPACES, body, name=name, subresource="finalize", user=USER)

    async def _empty(self, namespace: str) -> bool:
        """Delete everything that is not on its way yet; whether nothing is left."""
        left = False
        for info in self._api.registry.stored():
            if not info.namespaced:
                continue
            for key in list(self._api.store.collection(info.collection).span(namespace)):
                stored = self._api.store.get(info.collection, key)
                if stored is None:
                    continue
                if "deletionTimestamp" in stored.obj["metadata"]:
                    left = True
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
                    left |= not removal.gone
        return not left
