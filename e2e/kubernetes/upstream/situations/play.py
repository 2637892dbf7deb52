"""Plays a situation with one scheduler, and compares where its pods are with what is expected.

Each play has a namespace, nodes and topology keys of its own, so plays may share a cluster.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import singledispatchmethod

from e2e.harness.devices import CLAIMS, Devices, claim, devices_in, request
from e2e.harness.environment import Environment
from e2e.harness.objects import Json
from e2e.kubernetes.upstream.situations import model, objects
from e2e.kubernetes.upstream.situations.objects import COMPOSITES, GROUPS, SET
from kube.base.errors import KubeError, NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import EVENTS, PDBS, PODS, PVCS, PVS

LEVELS = {1: ("rack",), 2: ("zone", "rack"), 3: ("zone", "block", "rack")}
"""The topology keys of a node by the number of its domains."""
LOOKS = 6
"""Looks at the pods after the last step, half a second apart; they must stay where they are."""


async def play(situation: model.Situation, scheduler: str, env: Environment) -> None:
    """Take all steps. Raises AssertionError with the first step whose expectation failed."""
    async with AsyncExitStack() as stack:
        player = _Player(env, scheduler, stack)
        stack.push_async_callback(player.clear)
        steps = situation.of(scheduler)
        for number, step in enumerate(steps, 1):
            try:
                await player.take(step)
            except (AssertionError, TimeoutError, KubeError) as error:
                events = await player.events()
                text = f"step {number} of {len(steps)}, {step}: {error}\n{events}"
                raise AssertionError(text) from error
        await player.stays()


class _Player:
    def __init__(self, env: Environment, scheduler: str, stack: AsyncExitStack) -> None:
        self._env = env
        self._client = env.client
        self._scheduler = scheduler
        self._stack = stack
        self._devices: Devices | None = None
        self._nodes: list[str] = []
        self._domains: dict[str, dict[str, str]] = {}
        self._sets: dict[str, model.Pods] = {}
        self._expected: dict[str, Counter[str]] = {}
        self._last: model.Expect | None = None
        self._volumes: list[str] = []
        self._keys = {
            key: f"{env.name}.example.com/{key}" for level in LEVELS.values() for key in level
        }

    async def clear(self) -> None:
        """Delete the volumes, and let the pods that stay end."""
        for name in self._sets:
            await self._release(name)
        for volume in self._volumes:
            await self._client.delete(PVS, volume)

    @singledispatchmethod
    async def take(self, step: model.Step) -> None:
        """Take one step. Raises TimeoutError or AssertionError if it does not succeed."""
        raise NotImplementedError(step)

    @take.register
    async def _(self, step: model.Nodes) -> None:
        added = (self._add_node(step, path) for path in step.domains)
        self._nodes += await asyncio.gather(*added)

    async def _add_node(self, step: model.Nodes, path: tuple[str, ...]) -> str:
        domains = dict(zip(LEVELS[len(path)] if path else (), path, strict=True))
        labels = {self._keys[key]: value for key, value in domains.items()}
        name = await self._env.add_node(cpu=step.cpu, tainted=step.tainted, labels=labels)
        self._domains[name] = domains
        return name

    @take.register
    async def _(self, step: model.Group) -> None:
        kind = COMPOSITES if step.composite else GROUPS
        await self._env.create(kind, objects.group_object(step, self._keys))

    @take.register
    async def _(self, step: model.Pods) -> None:
        await self.take(model.InTurn((step,)))

    @take.register
    async def _(self, step: model.InTurn) -> None:
        self._sets |= {each.name: each for each in step.sets}
        for index in range(max(each.count for each in step.sets)):
            for each in step.sets:
                if index < each.count:
                    made = objects.pod_object(
                        each, index, self._env.name, self._scheduler, self._nodes
                    )
                    await self._env.create(PODS, made)

    @take.register
    async def _(self, step: model.Minimum) -> None:
        ops = PatchBuilder().replace("/spec/schedulingPolicy/gang/minCount", step.minimum)
        await self._client.patch(GROUPS, step.group, ops, self._env.name)

    @take.register
    async def _(self, step: model.Delete) -> None:
        if step.kind == "pods":
            await self._env.delete_pods(f"{SET}={step.name}")
            del self._sets[step.name]
            self._expected.pop(step.name, None)
            return
        kind = COMPOSITES if step.kind == "composite" else GROUPS
        await self._client.delete(kind, step.name, self._env.name)
        try:
            # Kubernetes keeps a group as long as it has pods, unless somebody does this.
            ops = PatchBuilder().add("/metadata/finalizers", [])
            await self._client.patch(kind, step.name, ops, self._env.name)
        except NotFound:
            return

    @take.register
    async def _(self, step: model.Ungate) -> None:
        of = self._sets[step.name]
        for index in range(of.count):
            ops = PatchBuilder().replace("/spec/schedulingGates", [])
            await self._client.patch(PODS, objects.pod_name(of, index), ops, self._env.name)

    async def _release(self, name: str) -> None:
        for found in await self._env.pods(f"{SET}={name}"):
            if found["metadata"].get("finalizers"):
                ops = PatchBuilder().replace("/metadata/finalizers", [])
                await self._client.patch(PODS, found["metadata"]["name"], ops, self._env.name)

    @take.register
    async def _(self, step: model.Later) -> None:
        async def started() -> bool:
            return all("startTime" in each["status"] for each in await self._env.pods())

        await self._env.until("all pods to start", started)
        await asyncio.sleep(1)

    @take.register
    async def _(self, step: model.Budget) -> None:
        await self._env.create(PDBS, objects.budget_object(step.app, step.minimum))

        async def counted() -> bool:
            status = (await self._client.get(PDBS, step.app, self._env.name)).get("status") or {}
            return bool(status.get("currentHealthy") == step.minimum)

        await self._env.until(f"{step.minimum} healthy pods of {step.app}", counted)

    @take.register
    async def _(self, step: model.Volume) -> None:
        volume, claimed = objects.volume_objects(step.name, self._env.name)
        await self._client.create(PVS, volume)
        self._volumes.append(volume["metadata"]["name"])
        await self._env.create(PVCS, claimed)

        async def bound() -> bool:
            found = await self._client.get(PVCS, step.name, self._env.name)
            return bool(found["status"].get("phase") == "Bound")

        await self._env.until(f"{step.name} to be bound", bound)

    @take.register
    async def _(self, step: model.Devices) -> None:
        if self._devices is None:
            made = devices_in(self._client, self._env.name)
            self._devices = await self._stack.enter_async_context(made)
            await self._devices.add_class()
        await self._devices.publish(objects.named(step.node, self._nodes), step.count)

    @take.register
    async def _(self, step: model.Claim) -> None:
        await self._env.create(CLAIMS, claim(step.name, request(f"{self._env.name}-gpu")))

    @take.register
    async def _(self, step: model.Expect) -> None:
        self._expected |= step.pods
        self._last = step
        found = ["not looked yet"]

        async def as_expected() -> bool:
            found[:] = await self._wrong(step)
            return not found

        try:
            await self._env.until("the pods to be where they should be", as_expected)
        except TimeoutError as error:
            raise AssertionError("; ".join(found)) from error

    async def events(self) -> str:
        """Return the events of evictions and deletions, a line each."""
        found = (await self._client.list(EVENTS, self._env.name))["items"]
        return "\n".join(
            f"{it['involvedObject']['name']}: {it['reason']}: {it.get('message')}"
            for it in found
            if it["reason"] not in {"Scheduled", "FailedScheduling"}
        )

    async def stays(self) -> None:
        """Look again a few times. Raises AssertionError if anything is no longer as expected."""
        assert self._last is not None
        for _ in range(LOOKS):
            await asyncio.sleep(0.5)
            found = await self._wrong(self._last)
            assert not found, f"at first as expected, then: {'; '.join(found)}"

    async def _wrong(self, step: model.Expect) -> list[str]:
        """Return what is not as expected."""
        pods = await self._env.pods()
        found = [*self._wrong_states(pods), *self._wrong_nodes(step, pods)]
        for name, reason in step.status.items():
            if (is_now := await self._reason(name)) != reason:
                found.append(f"{name} is {is_now}, not {reason}")
        for name, consumers in step.reserved.items():
            if (holds := await self._consumers(name)) != (wanted := self._names(consumers)):
                found.append(f"{name} is reserved for {holds}, not {wanted}")
        return found

    def _wrong_states(self, pods: Sequence[Json]) -> Iterator[str]:
        for name, expected in self._expected.items():
            states = Counter(map(_state, _of(pods, name)))
            states["evicted"] += self._sets[name].count - states.total()
            waiting = states["refused"] + states["wait"]
            ends = all(states[it] == expected[it] for it in ("run", "evicted"))
            if not ends or states["refused"] < expected["refused"]:
                yield f"{name}: {+states}, not {expected}, {waiting} without a node"

    def _wrong_nodes(self, step: model.Expect, pods: Sequence[Json]) -> Iterator[str]:
        for name, allowed in step.at.items():
            used = set(_nodes_of(_of(pods, name)))
            if not used <= {objects.named(each, self._nodes) for each in allowed.split()}:
                yield f"{name} is on {self._short(used)}, not on {allowed}"
        for key, sets in step.together:
            used = {it for name in sets.split() for it in _nodes_of(_of(pods, name))}
            if len({self._domains[node].get(key) for node in used}) != 1:
                yield f"{sets}: on {self._short(used)}, not in one {key}"

    def _short(self, nodes: set[str]) -> list[str]:
        return sorted(f"n{self._nodes.index(each) + 1}" for each in nodes)

    async def _reason(self, group: str) -> str:
        try:
            found = await self._client.get(GROUPS, group, self._env.name)
        except NotFound:
            found = await self._client.get(COMPOSITES, group, self._env.name)
        conditions = (found.get("status") or {}).get("conditions") or []
        reasons = [it["reason"] for it in conditions if it["type"].endswith("InitiallyScheduled")]
        return str(reasons[0]) if reasons else "without a condition"

    async def _consumers(self, name: str) -> list[str]:
        found = await self._client.get(CLAIMS, name, self._env.name)
        return sorted(it["name"] for it in (found.get("status") or {}).get("reservedFor") or [])

    def _names(self, consumers: str) -> list[str]:
        """Return the names of these groups, and of all pods of these sets."""
        of = ((each, self._sets.get(each)) for each in consumers.split())
        return sorted(
            name
            for each, pods in of
            for name in (
                [each]
                if pods is None
                else [objects.pod_name(pods, index) for index in range(pods.count)]
            )
        )


def _of(pods: Sequence[Json], name: str) -> list[Json]:
    return [each for each in pods if each["metadata"]["labels"][SET] == name]


def _nodes_of(pods: Sequence[Json]) -> list[str]:
    return [each["spec"]["nodeName"] for each in pods if _state(each) == "run"]


def _state(pod: Json) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "evicted"
    if pod["spec"].get("nodeName"):
        return "run"
    conditions = pod["status"].get("conditions") or []
    found: Json = next((it for it in conditions if it["type"] == "PodScheduled"), {})
    refused = found.get("status") == "False" and found.get("reason") != "SchedulingGated"
    return "refused" if refused else "wait"
