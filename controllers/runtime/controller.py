"""What all controllers share: a queue of keys, workers, retries, and fenced writes."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Generic, TypeVar

import structlog

from api.constants import EVENT_GROUP_NOT_MADE
from kube.base.clock import Clock, SystemClock
from kube.base.errors import ApiError, Invalid, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import HasMeta, Json, ObjectMeta, decode_partial
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource
from kube.concurrency.failures import Failures
from kube.concurrency.fair_queue import FairSemaphore
from kube.concurrency.pace import Pace
from kube.concurrency.workqueue import WorkQueue
from kube.leader.election import Fence

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMeta)

log = structlog.get_logger()

# Fewer than the client's connections, so that a burst of writes never starves the lease. One
# namespace has two thirds of them at most.
_CONCURRENT_WRITES = 48
"""Writes of all controllers at a time. Namespaces share them fairly."""

_WORKERS = 12
"""Keys that a controller handles at a time."""

OWN_RIGHTS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The form of an answer without spec and status; any that does not know it sends the whole."""

METADATA_LIST = METADATA.replace("Metadata;", "MetadataList;")
"""The same of a list."""

_LARGEST_OBJECT = 4 * 1024 * 1024
"""Bytes of an object of other kinds; none in etcd is larger. A larger one is an error."""

_READ_SECONDS = 10.0
"""Seconds that such a read may take."""


class RequeueError(Exception):
    """The key cannot be finished now, without any error: queue it again after `seconds`."""

    def __init__(self, reason: str, seconds: float) -> None:
        """`reason` says what is waited for."""
        super().__init__(reason)
        self.seconds = seconds


class InTheWayError(RequeueError):
    """An object that is to go has a name that is needed. The text tells users what keeps it."""


class BlockedError(Exception):
    """The key cannot be finished until a user acts: its pods wait. `reason` is the event's."""

    def __init__(self, reason: str, message: str) -> None:
        """`message` says what to do."""
        super().__init__(message)
        self.reason = reason


class RefusedError(BlockedError):
    """The API server refuses what is needed: by a quota, a policy or a webhook.

    No event says that this is over, so `error` is raised once users know, and the key comes again.
    """

    def __init__(self, what: str, error: ApiError) -> None:
        """`what` names the object and what was to be done with it."""
        super().__init__(EVENT_GROUP_NOT_MADE, f"{what}: {error.message}")
        self.error = error


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Raise RefusedError where the API server refuses the request inside the block.

    An object that is gone or has changed is no refusal: the cache is behind.
    """
    try:
        yield
    except ApiError as error:
        behind = isinstance(error, Invalid) and error.patch_failed
        if not error.refused or behind or (isinstance(error, NotFound) and error.name):
            raise
        raise RefusedError(what, error) from error


class NotServedError(KubeError):
    """The API server does not serve the kind at the moment: nothing is known of the object.

    That is so right after it has started, and while a CRD is gone or changes.
    """


@contextmanager
def _served(resource: Resource) -> Iterator[None]:
    """Raise NotServedError where a 404 is about no object, so that NotFound is about one."""
    try:
        yield
    except NotFound as error:
        if not error.name:
            raise NotServedError(f"{resource.full_name} is not served now") from error
        raise


class NotLeadingError(Exception):
    """The lease may be lost: nothing is written any more."""


class Writer:
    """The requests of the controllers; none writes unless this process certainly holds the lease.

    A namespace whose requests take long, as a webhook of its own may hang, delays no other's.
    """

    def __init__(self, client: Client, fence: Fence) -> None:
        """Writes are sent while the fence is valid."""
        self._client = client
        self._fence = fence
        self._slots = FairSemaphore(_CONCURRENT_WRITES)

    async def get(self, resource: Resource, name: str, namespace: str) -> Json:
        """The live object. Raises NotServedError, kube errors."""
        async with self._slots.acquired(namespace):
            with _served(resource):
                return await self._client.get(resource, name, namespace)

    async def read(self, path: str, form: str, namespace: str, **params: str) -> bytes:
        """What is at a path, in this form, for an object of a namespace. Raises kube errors."""
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
        """The metadata of a live object alone. Raises NotServedError, kube errors."""
        with _served(resource):
            found = await self.read(resource.path(namespace, name), METADATA, namespace)
        return decode_partial(found).metadata

    async def may(self, verb: str, resource: Resource, namespace: str) -> bool:
        """Whether this process has a right; no namespace means the whole cluster.

        Raises kube errors.
        """
        asked = {"verb": verb, "group": resource.group, "resource": resource.plural}
        attributes = {"resourceAttributes": asked | {"namespace": namespace}}
        async with self._slots.acquired(namespace):
            answer = await self._client.create(OWN_RIGHTS, {"spec": attributes})
        return (answer.get("status") or {}).get("allowed") is True

    async def create(self, resource: Resource, obj: Json) -> Json:
        """Create an object. Raises NotLeadingError, kube errors."""
        async with self._slots.acquired(obj["metadata"].get("namespace", "")):
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
        """Patch an object, or one of its sub-resources.

        Raises NotLeadingError, NotServedError, kube errors.
        """
        async with self._slots.acquired(namespace):
            self._check()
            with _served(resource):
                return await self._client.patch(
                    resource, name, ops, namespace, subresource=subresource
                )

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        """Delete exactly this object. Raises NotLeadingError, NotServedError, kube errors."""
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
    """Keys in a queue and workers that reconcile them, one worker to a key at a time.

    Whatever `reconcile` raises is handled here, in one place: the key is queued again, after a
    growing delay: up to 30 s for what the API server may say, up to 5 min for a bug of ours. A bug
    that one key triggers never stops the others.
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
        """`name` labels logs and metrics; a key begins with its namespace, or `namespace` has it.

        One namespace has two thirds of the workers at most.
        """
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(
            name, workers=workers, namespace=namespace, clock=clock
        )
        self._reconcile = reconcile
        self._workers = workers
        self._failures: Failures[K] = Failures(name, _words)

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: the keys whose reconciliation raises an error of ours."""
        return self._failures.details()

    async def run(self) -> None:
        """Work until cancelled."""
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
        """Reconcile one key and handle what it raises."""
        try:
            await self._reconcile(key)
        except RequeueError as wait:
            self.queue.add_after(key, wait.seconds)
        except NotLeadingError:
            self.queue.retry(key)
        except KubeError as error:
            wait_seconds = self.queue.retry(key, error)
            log.warning(
                "reconcile will be retried",
                controller=self.name,
                key=key,
                problem=str(error),
                wait=round(wait_seconds, 3),
            )
        except Exception as error:  # noqa: BLE001 - logged once for each kind, and tried again
            self.queue.add_after(key, self._failures.failed(key, error))
        else:
            self._failures.succeeded(key)
            self.queue.forget(key)


def _words(key: Hashable) -> str:
    """A key, which may have keys in it, as one text."""
    return "/".join(map(_words, key)) if isinstance(key, tuple) else str(key)


async def queue_all(objects: Iterable[T], queue: Callable[[T], None]) -> None:
    """Call `queue` for each object as of now, in slices between which other tasks run.

    What it raises is about that object alone, which was set aside when it came.
    """
    pace = Pace("resync", SystemClock())
    for obj in list(objects):
        meta = obj.metadata
        try:
            queue(obj)
        except Exception:
            log.exception("object not queued", namespace=meta.namespace, name=meta.name)
        if pace.over((meta.namespace, meta.name)):
            await pace.give_way()


async def bounded(work: Sequence[Callable[[], Awaitable[None]]], limit: int) -> None:
    """Run all, at most `limit` at a time; the first failure is raised once all have ended."""
    slots = asyncio.Semaphore(limit)

    async def one(part: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await part()

    results = await asyncio.gather(*(one(part) for part in work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
