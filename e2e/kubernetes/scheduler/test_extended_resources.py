"""Extended resources that devices provide: nodes and claims equal kube-scheduler's."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler import device_allocations as allocations
from e2e.kubernetes.scheduler import device_answers as answers
from e2e.kubernetes.scheduler.device_answers import Decisions, Json, Ours
from e2e.kubernetes.scheduler.device_scenarios import DeviceScenario
from e2e.kubernetes.scheduler.extended_scenarios import extended_scenario
from e2e.kubernetes.scheduler.extender import Extender
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler
from scheduler.claims.claim_patches import claim_spec
from scheduler.core.framework import node_resources_fit
from scheduler.core.values.devices import Allocation
from scheduler.core.values.extended_devices import mappings
from scheduler.decoding import decode
from scheduler.decoding.device_decode import device_class_info
from scheduler.decoding.device_objects import decode_device_class
from scheduler.decoding.extended_resources import claim_key, containers_of
from scheduler.decoding.objects import decode_pod

SEED = 20261123
_PODS = "/api/v1/namespaces/{}/pods"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"


@dataclass
class Compared:
    """Statistics; `pairs` are of a pod and a node.

    `placed` pods had claims or, if `native`, none.
    """

    pairs: int = 0
    feasible: int = 0
    placed: int = 0
    native: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)


class Extended(Ours):
    """Muster's state, with the pods' requests of extended resources."""

    async def read(self) -> None:
        await super().read()
        path = "/apis/resource.k8s.io/v1/deviceclasses"
        for obj in (await self.rest.get(path)).ok()["items"]:
            raw = decode_device_class(answers.as_bytes(obj))
            self.state.devices.set_class(device_class_info(raw, implicit=True))

    def shape_of(self, stored: Json) -> tuple[Any, Any]:
        """Yield the pod's shape and info, which are removed afterwards."""
        pod = decode_pod(answers.as_bytes(stored))
        info = decode.pod_info(pod)
        containers = containers_of(pod, info.requirements.requests)
        wants = replace(info.requirements, extended=containers)
        made = self.state.set_pod(
            replace(info, requirements=wants, device_claims=(claim_key(info),))
        )
        assert made is not None
        return made.shape, info

    async def nodes(self, pod: Json) -> tuple[frozenset[str], int]:
        """Return the nodes that the pod fits, and the number of nodes that lack only devices."""
        stored = await self._stored(pod)
        shape, info = self.shape_of(stored)
        framework, table = self.state.framework, self.state.nodes
        slots = framework.slots(shape)
        everywhere = np.ones(table.size, np.bool_)
        fits = node_resources_fit.capacity_of(shape, table.free, slice(table.size), everywhere) > 0
        lacking = dict(
            framework.plugins.dynamic_resources.insufficient(shape, framework.capacity(shape))
        )
        short = lacking.get("cannot allocate all claims", np.zeros(table.size, np.bool_))
        self.state.remove_pod(info.uid)
        names = frozenset(table.name_of(row) for row in slots.nonzero()[0].tolist())
        return names, int((short & fits & (slots == 0)).sum())

    async def given(self, pod: Json, node: str) -> Allocation | str:
        """Return the allocation for the pod's claim on the node, or the reason why it has none."""
        stored = await self._stored(pod)
        shape, info = self.shape_of(stored)
        state, row = self.state, self.state.nodes.row_of[node]
        found: Allocation | str = "refused"
        with state.nodes.trial():
            rows, one = np.array([row], np.int64), np.ones(1, np.int64)
            if state.framework.slots(shape)[row] > 0 and state.framework.reserve(shape, rows, one):
                claims = state.framework.plugins.dynamic_resources.allocations(
                    [(shape, row, (claim_key(info),))]
                )
                found = next(iter(claims.values()), "native")
        state.remove_pod(info.uid)
        return found


@pytest.mark.timeout(1200)
async def test_extended_resources_are_met_as_by_kube_scheduler(
    server_kind: str, long: bool
) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    done = Compared()
    async with kube_scheduler() as (_, rest, extender), answers.decisions(rest) as seen:
        for number in range(8 if long else 2):
            made = extended_scenario(SEED, number)
            await answers.create(rest, made)
            ours = Extended(rest, made.namespace)
            await ours.read()
            for pod in made.candidates:
                await _decide(rest, extender, seen, ours, pod, done)
            extender.accepts = "placed"
            for pod in made.placed:
                await _place(rest, seen, ours, made, pod, done)
            extender.accepts = ""
            await answers.clear(rest, made)

    assert not done.differences, "\n".join(done.differences)
    assert done.pairs >= (1200 if long else 300)
    assert 0.1 < done.feasible / done.pairs < 0.9
    assert done.placed >= (40 if long else 10)
    assert done.native >= (8 if long else 2)
    assert done.refused > 0


async def _decide(
    rest: Rest, extender: Extender, seen: Decisions, ours: Extended, pod: Json, done: Compared
) -> None:
    nodes, short = await ours.nodes(pod)
    done.pairs += len(ours.state.nodes.row_of)
    done.feasible += len(nodes)
    for last in (False, True):  # its caches may have been behind
        theirs = await answers.theirs(rest, extender, seen, pod)
        counted = theirs.counts.get("cannot allocate all claims", 0)
        if (theirs.nodes, counted) == (nodes, short):
            return
        if last:
            done.differences.append(
                f"{pod['metadata']}: only ours {sorted(nodes - theirs.nodes)}, only theirs"
                f" {sorted(theirs.nodes - nodes)}; {short} short of devices; {theirs.message}"
            )


async def _place(
    rest: Rest,
    seen: Decisions,
    ours: Extended,
    made: DeviceScenario,
    pod: Json,
    done: Compared,
) -> None:
    """Place the pod on one node, and compare its placement and its claim."""
    nodes, _ = await ours.nodes(pod)
    dice = random.Random(pod["metadata"]["name"] + made.namespace)  # no secret
    every = [each["metadata"]["name"] for each in made.nodes]
    node = dice.choice(sorted(nodes) if nodes and dice.random() < 0.85 else every)
    found = await ours.given(pod, node)
    path = _PODS.format(made.namespace)
    uid = (await rest.post(path, answers.pinned(pod, node))).ok()["metadata"]["uid"]
    name = f"{path}/{pod['metadata']['name']}-{node}"
    refusal = await seen.placed(uid, [])
    placed = (await rest.get(name)).ok()
    (await rest.delete(name, {"gracePeriodSeconds": 0})).ok()
    said = placed["status"].get("extendedResourceClaimStatus")
    if refusal or said is None:
        theirs = "refused" if refusal else "native"
        done.refused += bool(refusal)
        done.native += not refusal
        if found != theirs:
            done.differences.append(f"{name}: ours {found}, theirs {theirs} {refusal}")
        return
    done.placed += 1
    claims = _CLAIMS.format(made.namespace)
    claim = (await rest.get(f"{claims}/{said['resourceClaimName']}")).ok()
    _compare(name, found, placed, claim, done)
    ours.set_claim(claim)


def _compare(name: str, found: Allocation | str, placed: Json, claim: Json, done: Compared) -> None:
    """Compare the claim's spec and allocation, and the pod's status."""
    given = allocations.theirs(claim["status"]["allocation"])
    if isinstance(found, str) or found.ask is None:
        done.differences.append(f"{name}: ours {found}, theirs {given}")
        return
    pod = decode_pod(answers.as_bytes(placed))
    requests = decode.pod_info(pod).requirements.requests
    uses = [
        {"containerName": container, "resourceName": resource, "requestName": request}
        for container, resource, request in mappings(containers_of(pod, requests), found.ask)
    ]
    said = placed["status"]["extendedResourceClaimStatus"]["requestMappings"]
    for what, ours, theirs in (
        ("spec", claim_spec(found.ask), claim["spec"]),
        ("allocation", allocations.ours(found), given),
        ("mappings", _sorted(uses), _sorted(said)),
    ):
        if ours != theirs:
            done.differences.append(f"{name} {what}:\n  ours {ours}\n  theirs {theirs}")


def _sorted(uses: list[Json]) -> list[tuple[str, ...]]:
    return sorted(tuple(use[key] for key in sorted(use)) for use in uses)
