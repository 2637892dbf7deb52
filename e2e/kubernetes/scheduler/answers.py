"""Both results for each pod: kube-scheduler's by its extender, Muster's from the same objects."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler.extender import Extender
from e2e.kubernetes.scheduler.generator import Scenario
from scheduler.core.explain.explain import reasons
from scheduler.core.state.state import State
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_namespace, decode_node, decode_pod
from scheduler.decoding.volume_decode import (
    attach_limits,
    claim_info,
    class_info,
    storage_capacity_info,
    volume_info,
)
from scheduler.decoding.volume_objects import (
    decode_claim,
    decode_class,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
    decode_volume,
)

Json = dict[str, Any]
Key = tuple[str, str]
Sets = dict[Key, frozenset[str]]

_CORE = "/api/v1"
_STORAGE = "/apis/storage.k8s.io/v1"


async def create(rest: Rest, made: Scenario) -> None:
    """Create all objects except the candidates."""
    for path, objects in (
        (f"{_CORE}/namespaces", made.namespaces),
        (f"{_CORE}/nodes", made.nodes),
        (f"{_STORAGE}/storageclasses", made.classes),
        (f"{_STORAGE}/csinodes", made.csi_nodes),
        (f"{_STORAGE}/csidrivers", made.csi_drivers),
        (f"{_CORE}/persistentvolumes", made.volumes),
    ):
        await _post(rest, path, objects)
    # No controller sets the phase here.
    for volume in made.volumes:
        if "status" in volume:
            name = f"{_CORE}/persistentvolumes/{volume['metadata']['name']}"
            (await rest.patch(f"{name}/status", {"status": volume["status"]})).ok()
    for name in made.withdrawn:
        (await rest.delete(f"{_CORE}/persistentvolumes/{name}")).ok()
    for capacity in made.capacities:
        space = capacity["metadata"]["namespace"]
        await _post(rest, f"{_STORAGE}/namespaces/{space}/csistoragecapacities", [capacity])
    for plural, objects in (
        ("persistentvolumeclaims", made.claims),
        ("pods", made.running),
        ("pods", made.leaving),
    ):
        await asyncio.gather(*(_post(rest, _of(plural, obj), [obj]) for obj in objects))
    # No kubelet runs them, so they remain terminating.
    for pod in made.leaving:
        (await rest.delete(f"{_of('pods', pod)}/{pod['metadata']['name']}")).ok()


async def clear(rest: Rest, made: Scenario) -> None:
    """Delete everything except the namespaces, which are never reused."""
    for space in made.namespaces:
        root = f"{_CORE}/namespaces/{space['metadata']['name']}"
        at_once = {"gracePeriodSeconds": 0}
        for plural in ("pods", "persistentvolumeclaims"):
            (await rest.delete(f"{root}/{plural}", at_once)).ok()
        capacities = f"{_STORAGE}/namespaces/{space['metadata']['name']}/csistoragecapacities"
        (await rest.delete(capacities)).ok()
    for path in (
        f"{_CORE}/nodes",
        f"{_CORE}/persistentvolumes",
        f"{_STORAGE}/storageclasses",
        f"{_STORAGE}/csinodes",
        f"{_STORAGE}/csidrivers",
    ):
        (await rest.delete(path)).ok()


async def kube(rest: Rest, extender: Extender, pods: Iterable[Json]) -> Sets:
    """Let kube-scheduler decide on the pods, none of which it may bind, and delete them again."""
    made = await asyncio.gather(*(rest.post(_of("pods", pod), pod) for pod in pods))
    answers = await asyncio.gather(*(_decided(rest, extender, one.ok()) for one in made))
    at_once = {"gracePeriodSeconds": 0}
    for key, _ in answers:
        path = f"{_CORE}/namespaces/{key[0]}/pods/{key[1]}"
        (await rest.delete(path, at_once)).ok()
    return dict(answers)


async def muster(rest: Rest, made: Scenario) -> tuple[Sets, Mapping[Key, set[str]]]:
    """Return Muster's result for the candidates from the server's objects, and its reasons."""
    state = State()
    state.set_release(await rest.release())
    spaces = {space["metadata"]["name"] for space in made.namespaces}
    for obj in await _list(rest, f"{_CORE}/namespaces"):
        namespace = decode_namespace(_bytes(obj))
        state.set_namespace(namespace.metadata.name, namespace.metadata.labels)
    for obj in await _list(rest, f"{_CORE}/nodes"):
        state.set_node(decode.node_info(decode_node(_bytes(obj))))
    await _read_storage(rest, state)
    for obj in await _list(rest, f"{_CORE}/pods"):
        if obj["metadata"]["namespace"] in spaces:
            state.set_pod(decode.pod_info(decode_pod(_bytes(obj))))
    sets: Sets = {}
    told: dict[Key, set[str]] = {}
    for candidate in made.candidates:
        stored = (await rest.post(_of("pods", candidate), candidate, params={"dryRun": "All"})).ok()
        stored["spec"]["schedulerName"] = "muster-scheduler"
        pod = state.set_pod(decode.pod_info(decode_pod(_bytes(stored))))
        assert pod is not None
        assert not pod.info.requirements.unsupported
        nodes, framework = state.nodes, state.framework
        key = (pod.info.namespace, pod.info.name)
        rows = framework.slots(pod.shape).nonzero()[0].tolist()
        sets[key] = frozenset(nodes.name_of(row) for row in rows)
        told[key] = {reason for reason, _ in reasons(framework, pod.shape)}
        state.remove_pod(pod.info.uid)
    return sets, told


async def _read_storage(rest: Rest, state: State) -> None:
    storage = state.volumes
    for obj in await _list(rest, f"{_CORE}/persistentvolumeclaims"):
        storage.set_claim(claim_info(decode_claim(_bytes(obj))))
    for obj in await _list(rest, f"{_CORE}/persistentvolumes"):
        storage.set_volume(volume_info(decode_volume(_bytes(obj))))
    for obj in await _list(rest, f"{_STORAGE}/storageclasses"):
        storage.set_class(class_info(decode_class(_bytes(obj))))
    for obj in await _list(rest, f"{_STORAGE}/csinodes"):
        node = decode_csi_node(_bytes(obj))
        storage.set_limits(node.metadata.name, attach_limits(node))
    for obj in await _list(rest, f"{_STORAGE}/csidrivers"):
        driver = decode_csi_driver(_bytes(obj))
        storage.set_driver(driver.metadata.name, measured=driver.spec.storage_capacity)
    for obj in await _list(rest, f"{_STORAGE}/csistoragecapacities"):
        capacity = storage_capacity_info(decode_storage_capacity(_bytes(obj)))
        if capacity is not None:
            storage.capacities.set(capacity)


async def _decided(rest: Rest, extender: Extender, pod: Json) -> tuple[Key, frozenset[str]]:
    """Wait until kube-scheduler has reported the pod as unschedulable."""
    meta = pod["metadata"]
    path = f"{_CORE}/namespaces/{meta['namespace']}/pods/{meta['name']}"
    for _ in range(600):
        conditions = (await rest.get(path)).ok()["status"].get("conditions") or []
        if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions):
            return (meta["namespace"], meta["name"]), extender.recorded.get(
                meta["uid"], frozenset()
            )
        await asyncio.sleep(0.05)
    raise TimeoutError(f"kube-scheduler did not decide {path} within 30 s")


async def _post(rest: Rest, path: str, objects: Iterable[Json]) -> None:
    for answer in await asyncio.gather(*(rest.post(path, obj) for obj in objects)):
        answer.ok()


async def _list(rest: Rest, path: str) -> list[Json]:
    items: list[Json] = (await rest.get(path)).ok()["items"]
    return items


def _of(plural: str, obj: Json) -> str:
    return f"{_CORE}/namespaces/{obj['metadata']['namespace']}/{plural}"


def _bytes(obj: Json) -> bytes:
    return json.dumps(obj).encode()
