"""CEL selectors on devices: Muster's results compared to those of a running kube-scheduler.

Each device of the corpus is the only one of a node. For a pod with a claim for one device, the
nodes that pass the filters show the devices that its selector matches. A selector that fails on a
device ends the whole attempt, so if that is expected, each device gets its own pod, pinned to its
node.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.harness.controlplane.places import before
from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler.extender import Extender
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler
from scheduler.cel.selectors import Selectors
from scheduler.core.values.devices import SliceInfo
from scheduler.decoding.device_decode import ask_of, slice_info
from scheduler.decoding.device_objects import decode_resource_slice
from tests.scheduler.cel.devices import corpus, written_devices

Json = dict[str, Any]

_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_PODS = "/api/v1/namespaces/default/pods"
_AT_ONCE = {"gracePeriodSeconds": 0}
_TOGETHER = 50
"""Maximum number of pods that wait for kube-scheduler at a time."""

_PINNED_FAILS = "CEL runtime error"


@dataclass
class Played:
    """Both results: (expression, node, theirs, ours) if they differ."""

    verdicts: int = 0
    letters: set[str] = field(default_factory=set)
    stored: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, text: str, node: str, theirs: str, ours: str) -> None:
        self.verdicts += 1
        self.letters.add(theirs)
        if theirs != ours:
            self.differences.append(f"{node}: theirs {theirs}, ours {ours}: {text}")


@pytest.mark.timeout(1200)
async def test_devices_are_selected_as_by_kube_scheduler(server_kind: str, long: bool) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    played = Played()
    async with kube_scheduler() as (_, rest, extender):
        slices = await _create_devices(rest)
        await _until_seen(rest, extender, {each.name for each in slices})
        evaluate = _Judge(slices)
        for texts in _batches(_chosen(long)):
            await asyncio.gather(
                *(_play(rest, extender, evaluate, text, number, played) for number, text in texts)
            )

    assert not played.differences, "\n".join(played.differences)
    assert played.letters == {"y", "n", "!"}
    assert played.verdicts >= (2000 if long else 200)
    assert played.refused > 0


def _chosen(long: bool) -> list[tuple[int, str]]:
    """Return a sample of all expressions, with their numbers.

    Selectors that fail on some device need more pods, so fewer of them are chosen.
    """
    steps = {True: 4 if long else 40, False: 1 if long else 8}
    counts = {True: 0, False: 0}
    chosen: list[tuple[int, str]] = []
    lines = [line for group in corpus().values() for line in group]
    for number, (verdicts, text) in enumerate(lines):
        fails = "!" in verdicts
        counts[fails] += 1
        if counts[fails] % steps[fails] == 0:
            chosen.append((number, text))
    return chosen


def _batches(chosen: list[tuple[int, str]]) -> Iterable[list[tuple[int, str]]]:
    for start in range(0, len(chosen), _TOGETHER):
        yield chosen[start : start + _TOGETHER]


class _Judge:
    """Muster's results for the devices as stored in the API server."""

    def __init__(self, slices: list[SliceInfo]) -> None:
        self._slices = slices
        self._selectors = Selectors()

    def verdicts(self, text: str) -> dict[str, str]:
        letters: dict[str, str] = {}
        for each in self._slices:
            verdict = self._selectors.evaluate(text, each.driver, each.devices[0])
            letters[each.name] = "!" if isinstance(verdict, str) else "y" if verdict else "n"
        return letters

    def understands(self, text: str) -> bool:
        return not self._selectors.problem(text)


async def _create_devices(rest: Rest) -> list[SliceInfo]:
    (await rest.post(_CLASSES, {"metadata": {"name": "any"}, "spec": {}})).ok()
    for number, written in enumerate(written_devices()):
        name = f"node-{number}"
        node = {
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "1000"}},
        }
        (await rest.post("/api/v1/nodes", node)).ok()
        device = {key: written[key] for key in written if key not in {"name", "driver"}}
        if not before("1.37"):
            # There, a negative capacity fails each pod on all nodes.
            for capacity in device.get("capacity", {}).values():
                capacity["value"] = capacity["value"].removeprefix("-")
        spec = {
            "driver": written["driver"],
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": name,
            "devices": [{"name": "device", **device}],
        }
        (await rest.post(_SLICES, {"metadata": {"name": name}, "spec": spec})).ok()
    infos: list[SliceInfo] = []
    for obj in (await rest.get(_SLICES)).ok()["items"]:
        info, hidden = slice_info(decode_resource_slice(json.dumps(obj).encode()))
        assert not hidden
        infos.append(info)
    return infos


async def _until_seen(rest: Rest, extender: Extender, nodes: set[str]) -> None:
    """Wait until kube-scheduler knows all nodes and devices."""
    for attempt in range(60):
        assert (await _claim(rest, f"seen-{attempt}", "true")) is not None
        seen, _ = await _answer(rest, extender, f"seen-{attempt}", f"seen-{attempt}", "")
        if seen == nodes:
            return
    raise TimeoutError("kube-scheduler does not see all devices")


async def _play(
    rest: Rest, extender: Extender, evaluate: _Judge, text: str, number: int, played: Played
) -> None:
    claim = f"claim-{number}"
    stored = await _claim(rest, claim, text)
    if stored is None:
        played.refused += 1
        return
    if not evaluate.understands(text):
        return
    played.stored += 1
    ask, problem = ask_of(json.dumps(stored["spec"]).encode())
    assert not problem
    ours = evaluate.verdicts(ask.requests[0].options[0].selectors[0])
    if "!" not in ours.values():
        nodes, message = await _answer(rest, extender, f"pod-{number}", claim, "")
        failed = _PINNED_FAILS in message
        for node, letter in ours.items():
            theirs = "!" if failed else "y" if node in nodes else "n"
            played.compare(text, node, theirs, letter)
    else:
        for node, letter in ours.items():
            nodes, message = await _answer(rest, extender, f"pod-{number}-{node}", claim, node)
            theirs = "!" if _PINNED_FAILS in message else "y" if nodes else "n"
            played.compare(text, node, theirs, letter)
    (await rest.delete(f"{_CLAIMS}/{claim}")).ok()


async def _claim(rest: Rest, name: str, text: str) -> Json | None:
    """Return the stored claim; None if the API server rejects its selector."""
    selectors = [{"cel": {"expression": text}}]
    request = {"name": "one", "exactly": {"deviceClassName": "any", "selectors": selectors}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    answer = await rest.post(_CLAIMS, claim)
    return None if answer.status == 422 else answer.ok()


async def _answer(
    rest: Rest, extender: Extender, name: str, claim: str, node: str
) -> tuple[frozenset[str], str]:
    """Return the nodes that pass, and the message of the pod's condition.

    The pod is pinned to `node` if given.
    """
    field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
    pinned = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": pinned}
    spec: Json = {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "one", "resourceClaimName": claim}],
        **({"affinity": {"nodeAffinity": required}} if node else {}),
    }
    made = (await rest.post(_PODS, {"metadata": {"name": name}, "spec": spec})).ok()
    message = await _message(rest, f"{_PODS}/{name}")
    (await rest.delete(f"{_PODS}/{name}", _AT_ONCE)).ok()
    return extender.recorded.get(made["metadata"]["uid"], frozenset()), message


async def _message(rest: Rest, path: str) -> str:
    for _ in range(600):
        for condition in (await rest.get(path)).ok()["status"].get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        await asyncio.sleep(0.1)
    raise TimeoutError(f"kube-scheduler did not decide {path} within 60 s")
