"""Lists that break at any page and watches that freeze: every cache stays correct."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.harness.environment import Environment
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_group
from e2e.harness.support.breaking_proxy import FAILURES, BreakingProxy, PageRule
from kube.base.errors import Conflict, NotFound
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.resources import NAMESPACES, NODES, PDBS, PODS, Resource
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector
from tools.testing.effort import selected

FOLLOWED = (PODS, POD_GROUPS, PDBS, NODES, NAMESPACES)
PAGE = 5
REPLICA = "scheduler-behind-proxy"


@pytest.mark.parametrize("failure", selected({it: it for it in FAILURES}, {"410"}))
async def test_what_goes_while_a_list_fails_is_gone(
    env: Environment, tmp_path: Path, failure: str
) -> None:
    """The object is deleted after a page with it was read, and is newer than the last full list."""
    async with _proxy(env, tmp_path) as proxy, _following(env, proxy) as caches:
        await _until_true(env, caches)
        failed = asyncio.Event()

        async def second_page(path: str, page: int) -> str | None:
            if failed.is_set() or not path.endswith("/pods") or page != 2:
                return None
            failed.set()
            for index in range(2 * PAGE):
                await env.delete(PODS, f"pod-{index}")
            return failure

        proxy.rule = second_page
        proxy.freeze()
        for index in range(4 * PAGE):
            await env.create(PODS, _idle(env, f"pod-{index}"))
        proxy.expire()
        proxy.thaw()
        await _in_time(env, failed)

        await _until_true(env, caches)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_caches_are_true_whatever_breaks(
    env: Environment, tmp_path: Path, long: bool
) -> None:
    async with (
        _proxy(env, tmp_path) as proxy,
        _scheduler(env, proxy) as page,
        _following(env, proxy) as caches,
    ):
        churn = Churn(env)
        for number in range(20 if long else 4):
            chance = random.Random(number)
            proxy.rule = _breaking(chance)
            breaking = asyncio.ensure_future(_break(proxy, chance))
            await churn.steps(chance, 60)
            await breaking

            await _until_true(env, caches)
            await _until_scheduler_is_right(env, page)
        await churn.clear()


def _breaking(chance: random.Random) -> PageRule:
    async def rule(_path: str, page: int) -> str | None:
        # Failures must end, because a list must succeed before the next round.
        return chance.choice(FAILURES) if chance.random() < 0.5 / page else None

    return rule


async def _break(proxy: BreakingProxy, chance: random.Random) -> None:
    for _ in range(3):
        await asyncio.sleep(chance.random())
        if chance.random() < 0.5:
            proxy.freeze()
            await asyncio.sleep(chance.random())
        if chance.random() < 0.7:
            proxy.expire()
        proxy.thaw()


class Churn:
    """Pods, groups, budgets, nodes and namespaces that are created, changed and deleted."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._there: list[tuple[Resource, str]] = []
        self._number = 0

    async def steps(self, chance: random.Random, count: int) -> None:
        for _ in range(count):
            draw = chance.random()
            if draw < 0.5 or not self._there:
                await self._create(chance)
            elif draw < 0.65:
                await self._change(*chance.choice(self._there))
            else:
                await self._delete(*self._there.pop(chance.randrange(len(self._there))))

    async def clear(self) -> None:
        while self._there:
            await self._delete(*self._there.pop())

    async def _create(self, chance: random.Random) -> None:
        env, self._number = self._env, self._number + 1
        kind = chance.choices(FOLLOWED, (6, 3, 2, 2, 1))[0]
        name = f"{env.name}-x{self._number}"
        if chance.random() < 0.3 and kind is PODS:
            name = f"{env.name}-again"  # a name that another object had before
            if (PODS, name) in self._there:
                return
        await env.client.create(kind, _object(env, kind, name), _namespace(env, kind))
        self._there.append((kind, name))

    async def _change(self, kind: Resource, name: str) -> None:
        ops = [{"op": "add", "path": "/metadata/labels", "value": {"changed": str(self._number)}}]
        await self._env.client.patch(kind, name, ops, _namespace(self._env, kind))

    async def _delete(self, kind: Resource, name: str) -> None:
        try:
            await self._env.client.delete(kind, name, _namespace(self._env, kind))
        except (NotFound, Conflict):
            return


def _object(env: Environment, kind: Resource, name: str) -> Json:
    if kind is PODS:
        return _idle(env, name)
    if kind is POD_GROUPS:
        return pod_group(name, 1)
    if kind is PDBS:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        return {"metadata": {"name": name}, "spec": spec}
    return {"metadata": {"name": name}}


def _idle(env: Environment, name: str) -> Json:
    """Return a pod that no scheduler places."""
    return pod(name, env.name, scheduler="nobody")


def _namespace(env: Environment, kind: Resource) -> str | None:
    return env.name if kind.namespaced else None


@asynccontextmanager
async def _proxy(env: Environment, folder: Path) -> AsyncIterator[BreakingProxy]:
    proxy = BreakingProxy(env.cluster.kubeconfig, folder, page_size=PAGE)
    async with proxy.running():
        yield proxy


@asynccontextmanager
async def _following(
    env: Environment, proxy: BreakingProxy
) -> AsyncIterator[dict[Resource, Cache[RawObject]]]:
    """Run caches behind the proxy, as the controllers and the webhook have them."""
    caches: dict[Resource, Cache[RawObject]] = {kind: Cache() for kind in FOLLOWED}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(proxy.kubeconfig))
        reflectors = [Reflector(client, kind, caches[kind], decode=decode_raw) for kind in FOLLOWED]
        tasks = [asyncio.ensure_future(reflector.run()) for reflector in reflectors]
        try:
            for reflector in reflectors:
                await _in_time(env, reflector.synced)
            yield caches
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@asynccontextmanager
async def _scheduler(env: Environment, proxy: BreakingProxy) -> AsyncIterator[str]:
    """Run another scheduler behind the proxy, as a follower; yields the URL of its snapshot."""
    env.muster.add(REPLICA, SCHEDULER, proxy.kubeconfig, arguments=["--debug"])
    await env.muster.start(REPLICA)
    try:
        yield env.muster.page(REPLICA, "/debug/snapshot")
    finally:
        env.muster.kill(REPLICA)


async def _in_time(env: Environment, event: asyncio.Event) -> None:
    async with asyncio.timeout(env.timeout_seconds):
        await event.wait()


async def _until_true(env: Environment, caches: dict[Resource, Cache[RawObject]]) -> None:
    """Wait until each cache matches the API server's list; report the differences."""
    different: list[str] = []

    async def probe() -> bool:
        different[:] = [
            f"{kind.plural}: {line}"
            for kind, cache in caches.items()
            for line in _differences(
                {(m.namespace, m.name): (m.uid, m.resource_version)
                 for m in (each.metadata for each in cache.values())},
                {(m.get("namespace", ""), m["name"]): (m["uid"], m["resourceVersion"])
                 for m in (each["metadata"] for each in (await env.client.list(kind))["items"])},
            )
        ]  # fmt: skip
        return not different

    await _until(env, "caches to be as the API server lists", probe, different)


async def _until_scheduler_is_right(env: Environment, page: str) -> None:
    """Wait until the scheduler's pods, nodes, namespaces and budgets match the API server's."""
    different: list[str] = []

    async def probe() -> bool:
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(page) as answer:
            known = json.loads(await answer.read())
        different[:] = [
            f"{what}: {line}"
            for what, has, wants in (
                ("pods", _known_pods(known), await _listed(env, PODS)),
                ("nodes", {n["name"] for n in known["nodes"] if n}, await _listed(env, NODES)),
                ("namespaces", set(known["namespaces"]), await _listed(env, NAMESPACES)),
                ("budgets", {b["key"][1] for b in known["disruption_budgets"]},
                 await _listed(env, PDBS)),
                ("groups", {g["key"][2] for g in known["groups"]}, await _listed(env, POD_GROUPS)),
            )
            for line in _differences(dict.fromkeys(has, ""), dict.fromkeys(wants, ""))
        ]  # fmt: skip
        return not different

    await _until(env, "the scheduler to know what there is", probe, different)


def _known_pods(known: Json) -> set[str]:
    return {each["name"] for each in known["pods"] if each["phase"] in ("Pending", "Running")}


async def _listed(env: Environment, kind: Resource) -> set[str]:
    found = (await env.client.list(kind))["items"]
    ended = ("Succeeded", "Failed")
    return {
        each["metadata"]["name"]
        for each in found
        if kind is not PODS or each.get("status", {}).get("phase") not in ended
    }


def _differences(has: Mapping[Any, object], wants: Mapping[Any, object]) -> Iterator[str]:
    for key in has.keys() | wants.keys():
        if has.get(key) != wants.get(key):
            yield f"{key} is {wants.get(key)} and was taken for {has.get(key)}"


async def _until(
    env: Environment, what: str, probe: Callable[[], Awaitable[bool]], different: list[str]
) -> None:
    try:
        await env.until(what, probe)
    except TimeoutError as error:
        raise AssertionError("\n".join((f"{error}:", *different[:20]))) from error
