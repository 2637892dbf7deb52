"""Discovery of Kubernetes' own groups: errors, missing rights, one kind without the other."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from kube.base.clock import SystemClock
from kube.base.errors import Forbidden, KubeError, NotFound, Unreachable
from kube.client import discovery as probes
from kube.client.client import Client
from kube.client.resources import Resource
from kube.concurrency.freeze import Freeze
from scheduler.watch.native_groups import NativeGroupWatch

LEAVES, TREES = NATIVE_POD_GROUP.full_kind, NATIVE_COMPOSITE_POD_GROUP.full_kind
FORBIDDEN = Forbidden(403, "Forbidden", "no")
ABSENT = NotFound(404, "NotFound", "the server could not find the requested resource")
SERVED = b'{"resources": [{"name": "workloads"}, {"name": "%s"}, {"name": "%s/status"}]}'

Answer = bytes | KubeError


def serving(plural: str) -> bytes:
    return SERVED.replace(b"%s", plural.encode())


PODGROUPS, COMPOSITES = serving("podgroups"), serving("compositepodgroups")


class Discovery:
    """An API server whose answers come in this order; the last one is repeated.

    The role may list the groups if they are `readable`.
    """

    readable = True

    def __init__(self, **answers: Sequence[Answer]) -> None:
        self.answers = {version: [*said] for version, said in answers.items()}

    async def request(self, _method: str, path: str, **_more: Any) -> bytes:
        if path.endswith("podgroups"):
            if self.readable:
                return b"{}"
            raise FORBIDDEN
        said = self.answers.get(path.rpartition("/")[2], [ABSENT])
        answer = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


class Watched:
    """A watch of native groups whose reflectors and handlers only count."""

    def __init__(self, discovery: Discovery, *, readable: bool = True) -> None:
        discovery.readable = readable
        self.reread = 0
        self.dropped: list[str] = []
        self.pods = SimpleNamespace(native=False)
        self.running: set[str] = set()
        self.readable = readable
        handlers = {kind: self._handler(kind) for kind in (TREES, LEAVES)}
        self.watch = NativeGroupWatch(
            cast("Client", discovery),
            cast("Any", handlers),
            cast("Any", self.pods),
            reflector=cast("Any", self._reflector),
            reread_pods=self._reread,
            clock=SystemClock(),
            freeze=Freeze(),
        )

    def _handler(self, kind: str) -> SimpleNamespace:
        return SimpleNamespace(
            known=lambda: [("ns", "g")], delete=lambda _key: self.dropped.append(kind)
        )

    def _reflector(self, resource: Resource, _handler: object) -> SimpleNamespace:
        synced = asyncio.Event()

        async def run() -> None:
            self.running.add(resource.full_kind)
            if self.readable:
                synced.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.running.discard(resource.full_kind)

        return SimpleNamespace(resource=resource, synced=synced, run=run)

    async def _reread(self) -> None:
        self.reread += 1

    async def until(self, native: bool, running: set[str]) -> None:
        async with asyncio.timeout(20):
            while (self.pods.native, self.running) != (native, running):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(probes, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(probes, "STARTING", 0.05)


@pytest.mark.parametrize(
    ("discovery", "native", "running"),
    [
        pytest.param(Discovery(), False, set[str](), id="neither"),
        pytest.param(Discovery(v1beta1=[PODGROUPS]), True, {LEAVES}, id="PodGroups alone"),
        pytest.param(
            Discovery(v1beta1=[PODGROUPS], v1alpha3=[COMPOSITES]), True, {LEAVES, TREES}, id="both"
        ),
        pytest.param(
            Discovery(v1beta1=[Unreachable("GET", "/", "reset"), PODGROUPS]),
            True,
            {LEAVES},
            id="an outage first",
        ),
        pytest.param(
            Discovery(v1beta1=[b"[]", PODGROUPS]), True, {LEAVES}, id="an odd answer first"
        ),
        pytest.param(
            Discovery(v1beta1=[FORBIDDEN]), False, set[str](), id="discovery is forbidden"
        ),
        pytest.param(
            Discovery(v1beta1=[b'{"resources": null}']), False, set[str](), id="an empty list"
        ),
    ],
)
async def test_what_is_served_is_watched(
    discovery: Discovery, native: bool, running: set[str]
) -> None:
    watched = Watched(discovery)
    task = asyncio.ensure_future(watched.watch.run())
    await asyncio.wait_for(watched.watch.known.wait(), 20)

    await watched.until(native, running)
    # No pod was read before, so none has to be read again.
    assert watched.reread == 0
    task.cancel()


async def test_a_kind_that_appears_and_disappears() -> None:
    """A server that lacks it for a moment does not end the watch."""
    said: list[Answer] = [ABSENT, ABSENT, PODGROUPS, ABSENT, ABSENT, PODGROUPS, ABSENT]
    watched = Watched(Discovery(v1beta1=said))
    task = asyncio.ensure_future(watched.watch.run())
    await watched.until(True, {LEAVES})
    assert watched.reread == 1
    await watched.until(False, set())

    assert (watched.reread, watched.dropped) == (2, [LEAVES])
    assert watched.watch.reflectors == {}
    task.cancel()


async def test_an_outage_ends_no_watch() -> None:
    outage = Unreachable("GET", "/", "reset")
    watched = Watched(Discovery(v1beta1=[PODGROUPS, outage, outage, PODGROUPS]))
    task = asyncio.ensure_future(watched.watch.run())
    await watched.until(True, {LEAVES})
    await asyncio.sleep(0.3)

    assert (watched.running, watched.dropped, watched.reread) == ({LEAVES}, [], 0)
    task.cancel()


async def test_the_scheduler_starts_without_groups_that_it_may_not_read() -> None:
    """Their pods wait: the field still names native groups, which are not known."""
    watched = Watched(Discovery(v1beta1=[PODGROUPS]), readable=False)
    task = asyncio.ensure_future(watched.watch.run())
    await asyncio.wait_for(watched.watch.known.wait(), 20)

    assert watched.pods.native
    task.cancel()
