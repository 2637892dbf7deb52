"""The common runtime of all controllers: a queue of keys, workers, retries and fenced writes."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Generic, TypeVar

import structlog

from api.constants import EVENT_GROUP_NOT_MADE, KindName
from kube.base.clock import Clock, SystemClock
from kube.base.errors import ApiError, Invalid, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import HasMeta, Json, ObjectMeta, decode_partial
from kube.client.patch import PatchBuilder
from kube.client.resources import OWN_RIGHTS, Resource
from kube.concurrency.failures import Failures
from kube.concurrency.fair_queue import FairSemaphore
from kube.concurrency.pace import Pace
from kube.concurrency.workqueue import WorkQueue
from kube.leader.election import Fence

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMeta)

log = structlog.get_logger()

# Fewer than the client's connections, so that a burst of writes never delays the renewal of the
# lease. One namespace gets at most two thirds of them.
_CONCURRENT_WRITES = 48
"""Writes of all controllers at a time. Namespaces share them fairly."""

_WORKERS = 12
"""Keys that a controller handles at a time."""

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The media type of objects without spec and status.

An API server that does not know it sends the complete object.
"""

METADATA_LIST = METADATA.replace("Metadata;", "MetadataList;")
"""The media type of lists of such objects."""

_LARGEST_OBJECT = 4 * 1024 * 1024
"""Bytes of an object of another kind. No object in etcd is larger, so a larger one is an error."""

_READ_SECONDS = 10.0
"""Seconds for such a read."""


class RequeueError(Exception):
    """A key that cannot be finished now, without any error: queue it again after `seconds`."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class InTheWayError(RequeueError):
    """An object that is going to be deleted has a wanted name. The text states what keeps it."""


class BlockedError(Exception):
    """A key that cannot be finished until a user acts; its pods wait.

    `reason` is that of the event.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RejectedError(BlockedError):
    """A request that the API server rejects because of a quota, a policy or a webhook.

    No event reports that this is resolved. So `error` is raised once users are informed, and the
    key comes back.
    """

    def __init__(self, what: str, error: ApiError) -> None:
        """Create it with `what`: the object, and the operation that failed."""
        super().__init__(EVENT_GROUP_NOT_MADE, f"{what}: {error.message}")
        self.what = what
        self.error = error


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Raise RefusedError if the API server rejects a request inside the block."""
    try:
        yield
    except ApiError as error:
        # An object that was deleted or changed is no rejection: the cache is behind.
        behind = isinstance(error, Invalid) and error.patch_failed
        if not error.refused or behind or (isinstance(error, NotFound) and error.name):
            raise
        raise RejectedError(what, error) from error


class NotServedError(KubeError):
    """The API server does not serve the kind now, so the state of the object is unknown.

    This happens right after its start, and while a CRD is deleted or changed.
    """


@contextmanager
def _served(resource: Resource) -> Iterator[None]:
    """Raise NotServedError for a 404 that names no object, so that NotFound is always about one."""
    try:
        yield
    except NotFound as error:
        if not error.name:
            raise NotServedError(
                f"the API server does not serve {resource.full_name} now"
            ) from error
        raise


class NotLeadingError(Exception):
    """The lease may be lost: this process must stop writing."""


class Writer:
    """The requests of the controllers; it writes only while this process surely holds the lease."""

    def __init__(self, client: Client, fence: Fence) -> None:
        self._client = client
        self._fence = fence
        # Fair by namespace: requests that hang, as with a namespace's own webhook, delay no other
        # one.
        self._slots = FairSemaphore(_CONCURRENT_WRITES)

    async def get(self, resource: Resource, name: str, namespace: str) -> Json:
        """Return the live object. Raises NotServedError, kube errors."""
        async with self._slots.acquired(namespace):
            with _served(resource):
                return await self._client.get(resource, name, namespace)

    async def read(self, path: str, form: str, namespace: str, **params: str) -> bytes:
        """Return the response to a GET, of media type `form`. Raises kube errors."""
        async with self._slots.acquired(namespace):
            return await self._client.request(
                "GET",
                path,
                params=params,
                accept=form,
                largest=_LARGEST_OBJECT,
                timeout=_READ_SECONDS,
            )

    async def metadata(self, resource: Resource, name: str, namespace: str) -> ObjectMeta:
        """Return the metadata of a live object. Raises NotServedError, kube errors."""
        with _served(resource):
            found = await self.read(resource.path(namespace, name), METADATA, namespace)
        return decode_partial(found).metadata

    async def may(self, verb: str, resource: Resource, namespace: str) -> bool:
        """Return True if this process has the right; no namespace means the complete cluster.

        Raises kube errors.
        """
        asked = {"verb": verb, "group": resource.group, "resource": resource.plural}
        attributes = {"resourceAttributes": asked | {"namespace": namespace}}
        # No check of the lease: the API server stores nothing for this request.
        async with self._slots.acquired(namespace):
            response = await self._client.create(OWN_RIGHTS, {"spec": attributes})
        return (response.get("status") or {}).get("allowed") is True

    async def create(self, resource: Resource, obj: Json) -> Json:
        """Create an object. Raises NotLeadingError, kube errors."""
        async with self._slots.acquired(obj["metadata"].get("namespace", "")):
            # After the wait for a slot, in which the lease may have been lost.
            self._check()
            return await self._client.create(resource, obj)

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder,
        namespace: str,
        *,
        subresource: str | None = None,
    ) -> Json:
        """Patch an object or one of its subresources.

        Raises NotLeadingError, NotServedError, kube errors.
        """
        async with self._slots.acquired(namespace):
            self._check()
            with _served(resource):
                return await self._client.patch(
                    resource, name, ops, namespace, subresource=subresource
                )

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        """Delete exactly the object with this UID.

        Raises NotLeadingError, NotServedError, kube errors.
        """
        async with self._slots.acquired(namespace):
            self._check()
            with _served(resource):
                await self._client.delete(
                    resource, name, namespace, uid=uid, propagation="Background"
                )

    def _check(self) -> None:
        if not self._fence.valid():
            raise NotLeadingError


class Controller(Generic[K]):
    """A queue of keys and workers that reconcile them, one worker for each key at a time.

    All errors of `reconcile` are handled here, and the key is queued again. The delay grows up to
    30 s for errors of the API server, and up to 5 min for a bug of ours. A bug with one key never
    stops the others.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[None]],
        clock: Clock,
        workers: int = _WORKERS,
        *,
        namespace: Callable[[Any], str] = itemgetter(0),
    ) -> None:
        """Label logs and metrics with `name`; `namespace` returns that of a key.

        One namespace gets at most two thirds of the workers.
        """
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(
            name, workers=workers, namespace=namespace, clock=clock
        )
        self._reconcile = reconcile
        self._workers = workers
        self._failures: Failures[K] = Failures(name, _phrase)

    def details(self) -> Iterator[str]:
        """Yield lines for `/readyz`: keys whose reconciliation raises an unexpected error."""
        return self._failures.details()

    async def run(self) -> None:
        """Reconcile keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self.queue.close()
            self._failures.clear()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self.handle(key)
            finally:
                self.queue.done(key)

    async def handle(self, key: K) -> None:
        """Reconcile one key and handle its errors."""
        try:
            await self._reconcile(key)
        except RequeueError as wait:
            self.queue.add_after(key, wait.seconds)
        except NotLeadingError:
            # The lease may still be renewed in time. Otherwise the term ends, and this queue with
            # it.
            self.queue.retry(key)
        except KubeError as error:
            wait_seconds = self.queue.retry(key, error)
            log.warning(
                "failed to reconcile, retrying",
                controller=self.name,
                key=key,
                error=str(error),
                wait=round(wait_seconds, 3),
            )
        except Exception as error:  # noqa: BLE001 - logged once for each kind, and tried again
            self.queue.add_after(key, self._failures.failed(key, error))
        else:
            self._failures.succeeded(key)
            self.queue.forget(key)


def _phrase(key: Hashable) -> str:
    """Return a key, which may contain keys, as one text."""
    if isinstance(key, KindName):
        return key.full_name
    return "/".join(map(_phrase, key)) if isinstance(key, tuple) else str(key)


async def queue_all(objects: Iterable[T], queue: Callable[[T], None]) -> None:
    """Call `queue` for each object as of now; yield to other tasks in between.

    An error concerns only its object, whose decoding already reported it.
    """
    pace = Pace("resync", SystemClock())
    for obj in list(objects):
        meta = obj.metadata
        try:
            queue(obj)
        except Exception:
            log.exception("failed to queue an object", namespace=meta.namespace, name=meta.name)
        if pace.over((meta.namespace, meta.name)):
            await pace.give_way()


async def bounded(work: Sequence[Callable[[], Awaitable[None]]], limit: int) -> None:
    """Run all with at most `limit` at a time; raise the first error after all have ended."""
    slots = asyncio.Semaphore(limit)

    async def one(part: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await part()

    results = await asyncio.gather(*(one(part) for part in work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
