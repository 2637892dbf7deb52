"""Claims for devices: the nodes, the reasons and the allocations equal kube-scheduler's."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.scheduler import device_allocations as allocations
from e2e.kubernetes.scheduler import device_answers as answers
from e2e.kubernetes.scheduler.device_answers import Answer, Decisions, Json, Ours
from e2e.kubernetes.scheduler.device_scenarios import (
    STALE_ELSEWHERE,
    DeviceScenario,
    device_scenario,
)
from e2e.kubernetes.scheduler.extender import Extender
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler
from tests.scheduler.devices.checker import Checker

SEED = 20261122


@dataclass
class Compared:
    """Statistics of the comparison, and the differences.

    `pairs` are of a pod and a node, of which `feasible` ones were accepted; `cut` are pods for
    which Muster did not complete its search. `placed` pods were placed, or `refused` on their node.
    """

    pairs: int = 0
    feasible: int = 0
    cut: int = 0
    placed: int = 0
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def differ(self, where: str, ours: Answer, theirs: Answer) -> None:
        self.differences.append(
            f"{where}: only ours {sorted(ours.nodes - theirs.nodes)}, only theirs"
            f" {sorted(theirs.nodes - ours.nodes)}; ours: {dict(ours.counts)};"
            f" theirs: {theirs.message}"
        )


@pytest.mark.timeout(2400)
async def test_devices_are_allocated_as_by_kube_scheduler(server_kind: str, long: bool) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    done = Compared()
    async with kube_scheduler() as (_, rest, extender), answers.decisions(rest) as seen:
        for number in range(10 if long else 1):
            made = device_scenario(SEED, number)
            await answers.create(rest, made)
            ours = Ours(rest, made.namespace)
            await ours.read()
            await _decide(rest, extender, seen, ours, made, done)
            extender.accepts = "placed"
            nodes = await _place(rest, seen, ours, made, done)
            done.differences += _checked(ours, nodes)
            await answers.clear(rest, made)

    assert not done.differences, "\n".join(done.differences)
    assert done.pairs >= (1200 if long else 150)
    assert 0.1 < done.feasible / done.pairs < 0.9
    # A search that was cut short gives no result to compare.
    assert done.cut <= 0.02 * done.pairs / 10
    assert done.placed >= (80 if long else 8)
    assert done.refused > 0
    assert not long or all(done.reasons[reason] > 8 for reason in answers.REASONS)
    errors = {answers.error_in(text).partition("pool")[0] for text in done.reasons} - {""}
    assert not long or len(errors) >= 3


async def _decide(
    rest: Rest,
    extender: Extender,
    seen: Decisions,
    ours: Ours,
    made: DeviceScenario,
    done: Compared,
) -> None:
    """Compare the nodes for each candidate; if one has an error, node by node."""
    names = [node["metadata"]["name"] for node in made.nodes]

    async def compare(pod: Json, answer: Answer, node: str = "") -> None:
        theirs = await answers.theirs(rest, extender, seen, pod, node)
        if not answers.same(answer, theirs):  # its caches may have been behind
            theirs = await answers.theirs(rest, extender, seen, pod, node)
        if not answers.same(answer, theirs):
            done.differ(f"{made.namespace} {pod['metadata']['name']} {node}", answer, theirs)

    jobs = []
    for pod in made.candidates:
        answer = await ours.answer(pod)
        alone = await ours.answer(pod, own=True)
        if alone != answer:
            done.differ(f"{made.namespace} {pod['metadata']['name']} alone", alone, answer)
        done.feasible += len(answer.nodes)
        done.pairs += len(names)
        done.reasons.update(answer.counts.keys())
        if answer.cut:
            done.cut += 1
        elif answer.error:
            for name in names:
                pinned = await ours.answer(answers.pinned(pod, name))
                jobs.append(compare(pod, pinned, name))
        else:
            jobs.append(compare(pod, answer))
    await asyncio.gather(*jobs)


async def _place(
    rest: Rest, seen: Decisions, ours: Ours, made: DeviceScenario, done: Compared
) -> dict[str, list[str]]:
    """Place one pod after the other, each on one node, and compare the allocations of its claims.

    Returns the nodes of the pods that use each claim, by its UID.
    """
    nodes: dict[str, list[str]] = {}
    dice = random.Random(made.namespace)  # no secret
    names = [node["metadata"]["name"] for node in made.nodes]
    for pod in made.placed:
        answer = await ours.answer(pod)
        anywhere = dice.random() < 0.15
        if answer.cut or not (answer.nodes or anywhere):
            continue
        node = dice.choice(names if anywhere else sorted(answer.nodes))
        found = await ours.place(pod, node)
        if await ours.place(pod, node, own=True) != found:
            done.differences.append(f"{pod['metadata']}: another allocation where it is alone")
        claims, message = await answers.place_theirs(rest, seen, pod, node)
        if (found is None) != bool(message):
            done.differences.append(f"{pod['metadata']} on {node}: ours {found}, theirs {message}")
        done.refused += bool(message)
        done.placed += not message
        for name, claim in claims.items():
            given = allocations.theirs(claim["status"]["allocation"])
            if found and name in found and allocations.ours(found[name]) != given:
                done.differences.append(
                    f"{made.namespace} {name} on {node}:\n  ours {allocations.ours(found[name])}"
                    f"\n  theirs {given}"
                )
            ours.set_claim(claim)
            nodes.setdefault(claim["metadata"]["uid"], []).append(node)
    return nodes


def _checked(ours: Ours, nodes: dict[str, list[str]]) -> list[str]:
    """Return the independent checker's findings in all of kube-scheduler's allocations.

    The allocations from the beginning are random: not all of them would be possible.
    """
    table = ours.state.devices
    labels = {info.name: info.labels for info in ours.state.nodes.infos if info is not None}
    checker = Checker(table.slices.written.values(), table.classes, ours.evaluate, labels)
    claims = [
        claim
        for claim in table.claims.values()
        if not claim.key[1].startswith("taken")
        and claim.allocation is not None
        and not any(STALE_ELSEWHERE in device.key[1] for device in claim.allocation.devices)
    ]
    return checker.complaints(claims, nodes)
