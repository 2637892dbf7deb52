"""Both results for pods with claims: kube-scheduler's, and Muster's from the same objects.

kube-scheduler gives up on a pod after an error on any node (DRA.md calls it fatal); Muster omits
that node. So if an error is expected, the pod is tried on one node at a time.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from e2e.harness.controlplane.places import before
from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler.device_scenarios import DeviceScenario
from e2e.kubernetes.scheduler.extender import Extender
from scheduler.cel.selectors import Selectors
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.state import State
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey
from scheduler.decoding import decode
from scheduler.decoding.device_decode import (
    device_class_info,
    device_taint_rule,
    resource_claim_info,
    slice_info,
)
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
    decode_taint_rule,
)
from scheduler.decoding.objects import decode_node, decode_pod

Json = dict[str, Any]

_CORE: Final = "/api/v1"
_GROUP: Final = "/apis/resource.k8s.io/v1"
_OF_RULES: Final = "v1beta2" if before("1.37") else "v1"
RULES: Final = f"/apis/resource.k8s.io/{_OF_RULES}/devicetaintrules"
_AT_ONCE: Final = {"gracePeriodSeconds": 0}

REASONS: Final = (
    "cannot allocate all claims",
    "invalid resource pools were encountered",
    "resourceclaim not available on the node",
)
_CUT: Final = "found no devices for its claims in"
_ERRORS: Final = (
    re.compile(r"CEL (runtime|compile) error"),
    re.compile(r"asks for all devices, but resource pool \S+ is currently (being updated|invalid)"),
    re.compile(r"claim constraint.* would not be satisfied"),
    re.compile(r"number of requested devices \d+ exceeds the claim limit of 32"),
)


def error_in(text: str) -> str:
    """Return the error that ends kube-scheduler's attempt, in the text common to both; else ""."""
    for pattern in _ERRORS:
        if found := pattern.search(text):
            return found[0] if "pool" in found[0] else pattern.pattern
    return ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The nodes that the pod fits.

    `counts` are nodes by reason of DynamicResources.

    `error` is the error that ended the attempt; `message` the complete text. `cut` means that
    Muster stopped its search early.
    """

    nodes: frozenset[str]
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    message: str = ""

    @property
    def cut(self) -> bool:
        return _CUT in self.message


# The cluster


async def create(rest: Rest, made: DeviceScenario) -> None:
    """Create all objects except the pods."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    space = {"metadata": {"name": made.namespace, "labels": labels}}
    (await rest.post(f"{_CORE}/namespaces", space)).ok()
    for path, objects in (
        (f"{_CORE}/nodes", made.nodes),
        (f"{_GROUP}/deviceclasses", made.classes),
        (f"{_GROUP}/resourceslices", made.slices),
    ):
        await asyncio.gather(*(_post(rest, path, each) for each in objects))
    await asyncio.gather(*(_create_claim(rest, made.namespace, each) for each in made.claims))


async def _create_claim(rest: Rest, namespace: str, claim: Json) -> None:
    path = _claims(namespace)
    await _post(rest, path, {key: claim[key] for key in ("metadata", "spec")})
    if "status" in claim:
        status = f"{path}/{claim['metadata']['name']}/status"
        (await rest.patch(status, {"status": claim["status"]})).ok()


async def clear(rest: Rest, made: DeviceScenario) -> None:
    """Delete everything except the namespace, which is never reused."""
    space = f"{_CORE}/namespaces/{made.namespace}"
    (await rest.delete(f"{space}/pods", _AT_ONCE)).ok()
    for claim in await _list(rest, _claims(made.namespace)):
        name = f"{_claims(made.namespace)}/{claim['metadata']['name']}"
        if claim["metadata"].get("finalizers"):
            (await rest.patch(name, {"metadata": {"finalizers": None}})).ok()
        (await rest.delete(name)).ok()
    for path in (f"{_CORE}/nodes", f"{_GROUP}/deviceclasses", f"{_GROUP}/resourceslices"):
        (await rest.delete(path)).ok()


# kube-scheduler


class Decisions:
    """The results for pods and claims, awaited as events and not polled."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._objects: dict[str, Json] = {}
        self._changed = asyncio.Event()

    async def message(self, uid: str) -> str:
        """Wait for kube-scheduler's message about an unschedulable pod."""
        return str((await self._until(lambda: self._refusal(uid), f"pod {uid}")).get("message", ""))

    async def placed(self, uid: str, claims: Sequence[str]) -> str:
        """Wait until these claims (by UID) are allocated; without claims, until the pod has a node.

        Returns the message if the pod is unschedulable.
        """

        def said() -> Json | None:
            if not claims and "nodeName" not in self._objects.get(uid, {}).get("spec", {}):
                return self._refusal(uid)
            if all("allocation" in self._status(claim) for claim in claims):
                return {}
            return self._refusal(uid)

        return str((await self._until(said, f"pod {uid}")).get("message", ""))

    async def _until(self, said: Any, what: str) -> Json:
        try:
            async with asyncio.timeout(30):
                while (found := said()) is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"kube-scheduler did not decide {what} within 30 s") from None
        answer: Json = found
        return answer

    def _status(self, uid: str) -> Json:
        status: Json = self._objects.get(uid, {}).get("status") or {}
        return status

    def _refusal(self, uid: str) -> Json | None:
        for condition in self._status(uid).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                refusal: Json = condition
                return refusal
        return None

    async def follow(self, path: str) -> None:
        """Follow until cancelled; the server closes the stream of a slow watcher."""
        version = (await self._rest.get(path)).ok()["metadata"]["resourceVersion"]
        while True:
            async with self._rest.watch(path, {"resourceVersion": version}) as watch:
                try:
                    while True:
                        version = self._take(await watch.next(timeout=3600))
                except EOFError:
                    continue

    def _take(self, event: Json) -> str:
        """Record an event and return its version."""
        obj = event["object"]
        if event["type"] == "ERROR":
            raise RuntimeError(f"watch: {obj}")
        self._objects[obj["metadata"]["uid"]] = obj
        self._changed.set()
        version: str = obj["metadata"]["resourceVersion"]
        return version


@asynccontextmanager
async def decisions(rest: Rest) -> AsyncIterator[Decisions]:
    """Follow pods and claims inside the block."""
    seen = Decisions(rest)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(seen.follow(path))
            for path in (f"{_CORE}/pods", f"{_GROUP}/resourceclaims")
        ]
        yield seen
        for task in tasks:
            task.cancel()


async def theirs(
    rest: Rest, extender: Extender, seen: Decisions, pod: Json, node: str = ""
) -> Answer:
    """Return kube-scheduler's result for the pod, on one node alone if given."""
    path = f"{_CORE}/namespaces/{pod['metadata']['namespace']}/pods"
    made = (await rest.post(path, pinned(pod, node) if node else pod)).ok()["metadata"]
    message = await seen.message(made["uid"])
    (await rest.delete(f"{path}/{made['name']}", _AT_ONCE)).ok()
    nodes = extender.recorded.get(made["uid"], frozenset())
    counts = {r: int(found[1]) for r in REASONS if (found := re.search(rf"(\d+) {r}", message))}
    return Answer(nodes, counts, error_in(message), message)


def pinned(pod: Json, node: str) -> Json:
    """Return the pod under another name, pinned to one node."""
    meta, spec = pod["metadata"], pod["spec"]
    field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {
        "metadata": {**meta, "name": f"{meta['name']}-{node}"},
        "spec": {**spec, "affinity": affinity},
    }


# Muster


class Ours:
    """Muster's state from the API server's objects; claims of a namespace are read again."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self.rest = rest
        self.namespace = namespace
        self.evaluate = Selectors().evaluate
        self.state = State(evaluate=self.evaluate)
        self.asks: dict[ClaimKey, Ask] = {}

    async def read(self) -> None:
        state = self.state
        state.set_release(await self.rest.release())
        for obj in await _list(self.rest, f"{_CORE}/nodes"):
            state.set_node(decode.node_info(decode_node(as_bytes(obj))))
        for obj in await _list(self.rest, f"{_GROUP}/deviceclasses"):
            state.devices.set_class(device_class_info(decode_device_class(as_bytes(obj))))
        for obj in await _list(self.rest, f"{_GROUP}/resourceslices"):
            info, hidden = slice_info(decode_resource_slice(as_bytes(obj)))
            assert not hidden
            state.devices.slices.set(info)
        for obj in await _list(self.rest, _claims(self.namespace)):
            self.set_claim(obj)

    async def read_rules(self) -> None:
        """Read DeviceTaintRules if they are served."""
        for obj in await _list(self.rest, RULES):
            rule = device_taint_rule(decode_taint_rule(as_bytes(obj)), self.state.release)
            if rule is not None:
                self.state.devices.slices.set_rule(rule)

    def set_claim(self, obj: Json) -> None:
        info, problem = resource_claim_info(decode_resource_claim(as_bytes(obj)))
        assert not problem, problem
        self.asks[info.key] = info.ask
        self.state.devices.set_claim(info)

    async def answer(self, pod: Json, *, own: bool = False) -> Answer:
        """Return the result for a pod.

        `own` treats its unallocated claims as created for it alone.
        """
        stored = await self._stored(pod)
        shape = self._shape(pod, stored, own=own)
        framework = self.state.framework
        slots = framework.slots(shape)
        nodes = frozenset(self.state.nodes.name_of(row) for row in slots.nonzero()[0].tolist())
        # For nodes that fit the pod, `reasons` explains why they fit no more pods.
        out = framework.permitted(shape) & (slots == 0)
        lacking = framework.plugins.dynamic_resources.insufficient(shape, framework.capacity(shape))
        counts = {text: n for text, mask in lacking if (n := int((mask & out).sum()))}
        errors = sorted({error for text in counts if (error := error_in(text))})
        self.state.remove_pod(stored["metadata"]["uid"])
        return Answer(nodes, counts, errors[0] if errors else "", "; ".join(sorted(counts)))

    async def place(
        self, pod: Json, node: str, *, own: bool = False
    ) -> dict[str, Allocation] | None:
        """Return the allocation of each unallocated claim on the node; None if impossible."""
        stored = await self._stored(pod)
        shape, keys = self._shape(pod, stored, own=own), _keys(pod)
        state = self.state
        row = state.nodes.row_of[node]
        found: dict[str, Allocation] | None = None
        with state.nodes.trial():
            rows, one = np.array([row], np.int64), np.ones(1, np.int64)
            if state.framework.slots(shape)[row] > 0 and state.framework.reserve(shape, rows, one):
                given = state.framework.plugins.dynamic_resources.allocations([(shape, row, keys)])
                found = {key[1]: each for key, each in given.items()}
        state.remove_pod(stored["metadata"]["uid"])
        return found

    async def _stored(self, pod: Json) -> Json:
        """Return the pod with the API server's defaults; its claims are passed separately."""
        plain = {key: pod["spec"][key] for key in pod["spec"] if key != "resourceClaims"}
        path = f"{_CORE}/namespaces/{self.namespace}/pods"
        body = {"metadata": pod["metadata"], "spec": plain}
        stored = (await self.rest.post(path, body, params={"dryRun": "All"})).ok()
        stored["spec"]["schedulerName"] = "muster-scheduler"
        return stored

    def _shape(self, pod: Json, stored: Json, *, own: bool) -> Shape:
        info = decode.pod_info(decode_pod(as_bytes(stored)))
        keys = _keys(pod)
        free = {key for key in keys if own and self.state.devices.allocation(key) is None}
        asks = tuple(self.asks[key] if key in free else key for key in keys)
        wants = replace(info.requirements, asks=asks)
        made = self.state.set_pod(replace(info, requirements=wants, device_claims=keys))
        assert made is not None
        return made.shape


def _keys(pod: Json) -> tuple[ClaimKey, ...]:
    space = pod["metadata"]["namespace"]
    return tuple((space, each["resourceClaimName"]) for each in pod["spec"]["resourceClaims"])


async def place_theirs(
    rest: Rest, seen: Decisions, pod: Json, node: str
) -> tuple[dict[str, Json], str]:
    """Return the pod's claims after kube-scheduler has placed it, or its message if it cannot."""
    space = pod["metadata"]["namespace"]
    path = f"{_CORE}/namespaces/{space}/pods"
    before = [await claim(rest, *key) for key in _keys(pod)]
    made = (await rest.post(path, pinned(pod, node))).ok()["metadata"]
    open_ = [each["metadata"]["uid"] for each in before if "allocation" not in each["status"]]
    refusal = await seen.placed(made["uid"], open_)
    (await rest.delete(f"{path}/{made['name']}", _AT_ONCE)).ok()
    after = {name: await claim(rest, space, name) for space, name in _keys(pod)}
    return ({} if refusal else after), refusal


def same(ours: Answer, theirs: Answer) -> bool:
    """Return True if both accept the same nodes, for the same reasons."""
    # kube-scheduler does not count a reason that applies to all nodes at once.
    everywhere = (text for text in ours.counts if "does not exist" in text)
    return (
        ours.nodes == theirs.nodes
        and ours.error == theirs.error
        and all(text in theirs.message for text in everywhere)
        and _counted(ours) == _counted(theirs)
    )


def _counted(answer: Answer) -> Json:
    return {text: count for text, count in answer.counts.items() if text in REASONS}


async def claim(rest: Rest, namespace: str, name: str) -> Json:
    return (await rest.get(f"{_claims(namespace)}/{name}")).ok()


def _claims(namespace: str) -> str:
    return f"{_GROUP}/namespaces/{namespace}/resourceclaims"


async def _post(rest: Rest, path: str, obj: Json) -> None:
    # Blanks in the parameters of a claim's config are kept, and then JSON clients cannot change its
    # metadata: the API server considers that a change of the spec.
    (await rest.post(path, json.dumps(obj, separators=(",", ":")).encode())).ok()


async def _list(rest: Rest, path: str) -> list[Json]:
    items: list[Json] = (await rest.get(path)).ok()["items"]
    return items


def as_bytes(obj: Json) -> bytes:
    """Return the JSON of an object."""
    return json.dumps(obj).encode()
