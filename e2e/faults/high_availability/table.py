"""The table: who is hit, and by which fault.

Each fault is a context manager: it begins, holds while the block sleeps, and is over at its end.
Faults of API servers and etcd hit the member that has the victim's connections.
"""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from e2e.faults.high_availability import credentials
from e2e.faults.high_availability.site import CLIENTS, ThreeSite
from e2e.harness.high_availability.members import Member
from e2e.harness.high_availability.replicas import Replica, names
from e2e.harness.high_availability.servers import ThreeServers
from e2e.harness.muster import CONTROLLER, NAMESPACE, SCHEDULER, WEBHOOK
from e2e.harness.support.forwarder import BOTH, Direction
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

HOLD = 8.0
"""Seconds of most faults, more than two leases."""
_STOPPED_SECONDS = 40.0
_TOO_MANY_SECONDS = 60.0
_MINUTE = 60.0
_BEHIND = 3.0
_SLOW_SECONDS, _SLOW_BYTES = 0.3, 50_000.0
_BROKEN_EVERY = 0.4
_FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1/"
_NAME = "muster-too-many"


@dataclass(frozen=True, slots=True)
class Scene:
    """The site, and the replica that is hit; `rewound` is called when data become older."""

    site: ThreeSite
    rest: Rest
    hit: str
    rewound: Callable[[], None]

    @property
    def replica(self) -> Replica:
        return self.site.replica(self.hit)

    @property
    def plane(self) -> ThreeServers:
        return self.site.plane

    @property
    def member(self) -> Member:
        return self.site.member_of(self.hit)


class Row(NamedTuple):
    """One row of the table, by the names of its parts."""

    who: str
    fault: str


During = Callable[[Scene], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, how many seconds it holds, and if the writes of a stopped process may be late."""

    during: During
    seconds: float = HOLD
    late_writes: int = 0


# Of the replica itself.


@asynccontextmanager
async def _killed(scene: Scene) -> AsyncIterator[None]:
    scene.site.kill(scene.hit, after=HOLD)
    yield


@asynccontextmanager
async def _stopped(scene: Scene) -> AsyncIterator[None]:
    with scene.site.muster.paused(scene.hit):
        yield


@asynccontextmanager
async def _clock(scene: Scene, seconds: float) -> AsyncIterator[None]:
    scene.replica.step_clock(seconds)
    yield
    scene.replica.step_clock(0)


@asynccontextmanager
async def _full_disk(scene: Scene) -> AsyncIterator[None]:
    heal = scene.site.muster_replicas.fill_disk(scene.hit)
    yield
    heal()


# Of its link.


@asynccontextmanager
async def _cut(
    scene: Scene, *, from_one: bool = False, directions: tuple[Direction, ...] = BOTH
) -> AsyncIterator[None]:
    servers = (scene.member.apiserver,) if from_one else ()
    heal = scene.site.muster_replicas.cut(scene.hit, *servers, directions=directions)
    yield
    heal()


@asynccontextmanager
async def _slow(scene: Scene) -> AsyncIterator[None]:
    scene.replica.link.slow(delay=_SLOW_SECONDS, rate=_SLOW_BYTES)
    yield
    scene.replica.link.slow()


@asynccontextmanager
async def _lossy(scene: Scene) -> AsyncIterator[None]:
    async def lose() -> None:
        while True:
            scene.replica.link.reset()
            await asyncio.sleep(_BROKEN_EVERY)

    async with _meanwhile(lose()):
        yield


# Of the servers.


@asynccontextmanager
async def _server_behind(scene: Scene) -> AsyncIterator[None]:
    link = scene.member.link
    link.slow(delay=_BEHIND, directions=(Direction.RESPONSES,))
    yield
    link.slow()


@asynccontextmanager
async def _server_lost(scene: Scene) -> AsyncIterator[None]:
    scene.site.kill(scene.member.server, after=HOLD)
    yield


@asynccontextmanager
async def _server_stopped(scene: Scene) -> AsyncIterator[None]:
    async with _stopped_servers(scene.plane, scene.member.server):
        yield


@asynccontextmanager
async def _etcd_lost(scene: Scene) -> AsyncIterator[None]:
    scene.site.kill(scene.member.etcd, after=HOLD)
    yield


@asynccontextmanager
async def _quorum_lost(scene: Scene) -> AsyncIterator[None]:
    hit = scene.member
    other = next(it for it in scene.plane.members if it is not hit)
    async with _stopped_servers(scene.plane, hit.etcd, other.etcd):
        yield
    _restart(scene.site, *CLIENTS)


@asynccontextmanager
async def _restored(scene: Scene, *, restarts_muster: bool) -> AsyncIterator[None]:
    """Restore a snapshot from before the fault with everything else of Kubernetes restarted."""
    site, folder = scene.site, scene.plane.folder / "snapshot"
    await scene.plane.snapshot(folder)
    yield
    servers = [name for it in scene.plane.members for name in (it.server, it.etcd)]
    site.held_down.update(servers)
    await scene.plane.restore(folder)
    # Before an API server accepts requests: pods are bound again at once.
    scene.rewound()
    await scene.plane.start_restored()
    site.held_down.difference_update(servers)
    _restart(site, *CLIENTS, *(site.replicas if restarts_muster else ()))


@asynccontextmanager
async def _watch_caches_restarted(scene: Scene) -> AsyncIterator[None]:
    async def roll() -> None:
        for member in scene.plane.members:
            scene.site.kill(member.server)
            await asyncio.sleep(HOLD / 4)
            await scene.plane.ready(member)

    rolling = asyncio.ensure_future(roll())
    yield
    await rolling


@asynccontextmanager
async def _too_many_requests(scene: Scene) -> AsyncIterator[None]:
    """Have API Priority and Fairness reject all requests of the account."""
    plural = "prioritylevelconfigurations", "flowschemas"
    bodies = _priority_level(), _flow_schema(f"muster-{scene.replica.process}")
    try:
        for kind, body in zip(plural, bodies, strict=True):
            (await scene.rest.post(f"{_FLOW_CONTROL}{kind}", body)).ok()
        yield
    finally:
        for kind in reversed(plural):
            await eventually(
                partial(_deleted, scene.rest, f"{_FLOW_CONTROL}{kind}/{_NAME}"), kind, 30
            )


@asynccontextmanager
async def _token_expired(scene: Scene) -> AsyncIterator[None]:
    replica = scene.replica
    key = scene.plane.certificates / "sa.key"
    replica.token.write_text(credentials.expired(replica.token.read_text(), key))
    replica.link.reset()  # it reads the token again after a lost connection
    yield
    await scene.site.muster_replicas.renew_token(scene.rest, scene.hit)


@asynccontextmanager
async def _authority_rotated(scene: Scene) -> AsyncIterator[None]:
    """The victim's file gets the new CA late; those of the others have both CAs before."""
    site, plane = scene.site, scene.plane
    for replica in site.muster_replicas:
        if replica is not scene.replica:
            _write(replica.authority, plane.authorities)
    plane.rotate_authority()
    await eventually(partial(_serves_new_certificate, scene), "the certificate to be used", 120)
    scene.replica.link.reset()
    yield
    for replica in site.muster_replicas:
        _write(replica.authority, plane.authority)
        replica.link.reset()


FAULTS: Mapping[str, Fault] = {
    "killed": Fault(_killed),
    "stopped": Fault(_stopped, _STOPPED_SECONDS, late_writes=1),
    "cut off": Fault(_cut),
    "cut off from one server": Fault(partial(_cut, from_one=True)),
    "requests lost": Fault(partial(_cut, directions=(Direction.REQUESTS,))),
    "responses lost": Fault(partial(_cut, directions=(Direction.RESPONSES,))),
    "slow link": Fault(_slow),
    "lossy link": Fault(_lossy),
    "clock a minute ahead": Fault(partial(_clock, seconds=_MINUTE)),
    "clock a minute behind": Fault(partial(_clock, seconds=-_MINUTE)),
    "full disk": Fault(_full_disk),
    "token expired": Fault(_token_expired),
    "CA rotated": Fault(_authority_rotated),
    "too many requests": Fault(_too_many_requests, _TOO_MANY_SECONDS),
    "API server behind": Fault(_server_behind),
    "API server lost": Fault(_server_lost),
    "API server stopped": Fault(_server_stopped),
    "watch caches restarted": Fault(_watch_caches_restarted),
    "etcd member lost": Fault(_etcd_lost),
    "etcd quorum lost": Fault(_quorum_lost),
    "etcd restored": Fault(partial(_restored, restarts_muster=True), _MINUTE),
    "etcd restored under Muster": Fault(partial(_restored, restarts_muster=False), _MINUTE),
}

LEADER, STANDBY = "leader", "standby"
WHO = (LEADER, STANDBY, CONTROLLER, WEBHOOK)
"""The scheduler that leads, another one, the controller that leads, and a webhook."""

ROWS = [Row(who, fault) for fault in FAULTS for who in WHO]


async def hit(site: ThreeSite, rest: Rest, who: str, chance: random.Random) -> str:
    """Return the replica that is hit; wait until there is a leader if it has to be known."""
    if who == WEBHOOK:
        return chance.choice(names(WEBHOOK))
    process = CONTROLLER if who == CONTROLLER else SCHEDULER
    found: list[str] = []

    async def probe() -> bool:
        found[:] = filter(None, [await site.muster_replicas.leader(rest, process)])
        return bool(found)

    await eventually(probe, f"a {process} to lead", 60)
    (leader,) = found
    standbys = [name for name in names(process) if name != leader]
    return chance.choice(standbys) if who == STANDBY else leader


def _restart(site: ThreeSite, *restarted: str) -> None:
    for name in restarted:
        site.kill(name)


def _write(file: Path, content: bytes) -> None:
    """Replace a file in one step, as a kubelet does."""
    written = file.with_suffix(".new")
    written.write_bytes(content)
    written.replace(file)


@asynccontextmanager
async def _stopped_servers(plane: ThreeServers, *stopped: str) -> AsyncIterator[None]:
    for name in stopped:
        plane.send(name, signal.SIGSTOP)
    try:
        yield
    finally:
        for name in stopped:
            plane.send(name, signal.SIGCONT)


@asynccontextmanager
async def _meanwhile(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _serves_new_certificate(scene: Scene) -> bool:
    return all([await scene.plane.uses_authority(it) for it in scene.plane.members])


async def _deleted(rest: Rest, path: str) -> bool:
    return (await rest.delete(path)).status in (200, 404)


def _priority_level() -> dict[str, object]:
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    return {"metadata": {"name": _NAME}, "spec": {"type": "Limited", "limited": limited}}


def _flow_schema(account: str) -> dict[str, object]:
    subject = {
        "kind": "ServiceAccount",
        "serviceAccount": {"namespace": NAMESPACE, "name": account},
    }
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rule = {
        "subjects": [subject],
        "resourceRules": [{**everything, "clusterScope": True, "namespaces": ["*"]}],
    }
    level = {"priorityLevelConfiguration": {"name": _NAME}, "matchingPrecedence": 2}
    return {"metadata": {"name": _NAME}, "spec": {**level, "rules": [rule]}}
