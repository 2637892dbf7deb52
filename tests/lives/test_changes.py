"""A change of the cluster has the same effect on a gang as on plain pods.

The gang waits, runs or ends at that moment. Each cell of the table is played twice, with a gang and
with the same Job or Deployment whose pods are scheduled one by one; the result is the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from email.utils import format_datetime
from itertools import product
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from api.constants import DEPLOYMENT, JOB, JOBSET, STATEFUL_SET
from kube.base.errors import Forbidden, Unauthorized
from kube.client.meta import Json
from kube.client.resources import (
    DEPLOYMENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    Resource,
)
from tests.lives.cluster import GROUPS, SPACE, Cluster, active, workload

SIZE = 3
REST = 15.0
"""Seconds after which the cluster has settled."""


class Life(NamedTuple):
    """A workload in its cluster."""

    cluster: Cluster
    resource: Resource

    def remove(self, resource: Resource, name: str) -> None:
        self.cluster.api.remove(resource, name, SPACE)

    def remove_pods(self, count: int) -> None:
        for pod in list(active(self.cluster))[:count]:
            self.remove(PODS, pod["metadata"]["name"])

    def running(self) -> set[str]:
        found = (it for it in active(self.cluster) if it["spec"].get("nodeName"))
        return {it["metadata"]["name"] for it in found}

    def waiting(self) -> int:
        return sum(not it["spec"].get("nodeName") for it in active(self.cluster))

    def numbers(self) -> tuple[int, int]:
        """Return the numbers of running and of pending pods."""
        return len(self.running()), self.waiting()

    def is_empty(self) -> bool:
        return not any(self.cluster.api.all(it, SPACE) for it in (PODS, *GROUPS, self.resource))

    def node(self, name: str, patch: Json) -> None:
        self.cluster.api.change(NODES, name, patch)


State = Callable[[Life], Awaitable[None]]
Change = Callable[[Life], Awaitable[None]]


async def waits(life: Life) -> None:
    for name in "abc":
        life.node(name, {"spec": {"unschedulable": True}})
    await life.cluster.pass_time(5)


async def partly_bound(life: Life) -> None:
    """Bind exactly the pods that start together; no more fit."""
    for name in "bc":
        life.node(name, {"spec": {"unschedulable": True}})
    await life.cluster.pass_time(5)
    for name in "bc":
        life.node(name, {"spec": {"unschedulable": None}, "status": {"allocatable": {"cpu": "0"}}})
    await life.cluster.pass_time(1)


async def runs(life: Life) -> None:
    await life.cluster.pass_time(5)


async def loses_a_pod(life: Life) -> None:
    await runs(life)
    life.remove_pods(1)


async def restarts(life: Life) -> None:
    await runs(life)
    life.remove_pods(SIZE)


async def is_deleted(life: Life) -> None:
    await runs(life)
    life.remove(life.resource, "w")


async def default_class_comes(life: Life) -> None:
    life.cluster.priority_class("lower", 5, default=True)


async def default_class_goes(life: Life) -> None:
    life.cluster.api.remove(PRIORITY_CLASSES, "usual")


async def class_is_made_anew(life: Life) -> None:
    life.cluster.api.remove(PRIORITY_CLASSES, "named")
    life.cluster.priority_class("named", 20)


async def class_is_removed(life: Life) -> None:
    life.cluster.api.remove(PRIORITY_CLASSES, "named")


async def quota_refuses_pods(life: Life) -> None:
    life.cluster.pods_are_refused = True


async def policy_refuses_groups(life: Life) -> None:
    def refuse(_request: object) -> None:
        raise Forbidden(403, "Forbidden", "a policy says no")

    for resource in GROUPS:
        life.cluster.api.on(refuse, "create", "patch", of=resource, fails=True)


async def webhook_refuses_statuses(life: Life) -> None:
    def refuse(_request: object) -> None:
        raise Forbidden(403, "Forbidden", "a webhook says no")

    life.cluster.api.on(refuse, "patch", of=PODS, fails=True)


async def group_is_deleted(life: Life) -> None:
    for resource in GROUPS:
        for obj in life.cluster.api.all(resource, SPACE):
            life.remove(resource, obj["metadata"]["name"])


async def gang_is_asked_for_no_more(life: Life) -> None:
    """Change a Deployment's template, as the plain one's; other modes are immutable."""
    found = life.cluster.api.stored(life.resource, "w", SPACE)
    if found is None or life.resource not in (DEPLOYMENTS, STATEFUL_SETS):
        return
    notes = found["metadata"]["annotations"]
    if "scheduling.muster.dev/gang-mode" in notes:
        off = {"annotations": {"scheduling.muster.dev/gang-mode": "Off"}}
        life.cluster.update(life.resource, "w", {"metadata": off})
    else:
        await template_changes(life)


async def namespace_is_deleted(life: Life) -> None:
    life.cluster.delete_namespace()


async def labels_change(life: Life) -> None:
    life.cluster.api.change(NAMESPACES, SPACE, {"metadata": {"labels": {"of": "x"}}})
    if life.cluster.api.stored(life.resource, "w", SPACE) is not None:
        life.cluster.update(life.resource, "w", {"metadata": {"labels": {"of": "x"}}})


async def template_changes(life: Life) -> None:
    """Change the template; reduce the parallelism of a Job, whose template is immutable.

    A JobSet cannot change at all.
    """
    if life.resource == JOBSETS or life.cluster.api.stored(life.resource, "w", SPACE) is None:
        return
    of_pods = {"template": {"spec": {"terminationGracePeriodSeconds": 6}}}
    spec = {"parallelism": 2} if life.resource == JOBS else of_pods
    life.cluster.update(life.resource, "w", {"spec": spec})


async def node_is_cordoned(life: Life) -> None:
    life.node("a", {"spec": {"unschedulable": True}})


async def node_is_tainted(life: Life) -> None:
    life.node("a", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})


async def node_is_drained(life: Life) -> None:
    life.node("a", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})


async def node_is_deleted(life: Life) -> None:
    life.cluster.delete_node("a")


async def node_labels_change(life: Life) -> None:
    life.node("a", {"metadata": {"labels": {"pool": "other"}}})


async def credentials_are_rotated(life: Life) -> None:
    def refuse(_request: object) -> None:
        raise Unauthorized(401, "Unauthorized", "read your files again")

    life.cluster.api.on(refuse, fails=True)
    await life.cluster.pass_time(1.5)
    life.cluster.api.recover()


async def clock_jumps(life: Life, by: timedelta = timedelta(hours=2)) -> None:
    moment = life.cluster.clock.now() + by
    life.cluster.api.server_clock.heard(format_datetime(moment, usegmt=True))


async def clock_jumps_back(life: Life) -> None:
    await clock_jumps(life, -timedelta(hours=2))


STATES: dict[str, State] = {
    it.__name__: it for it in (waits, partly_bound, runs, loses_a_pod, restarts, is_deleted)
}
CHANGES: dict[str, Change] = {
    it.__name__: it
    for it in (
        default_class_comes,
        default_class_goes,
        class_is_made_anew,
        class_is_removed,
        quota_refuses_pods,
        policy_refuses_groups,
        webhook_refuses_statuses,
        group_is_deleted,
        gang_is_asked_for_no_more,
        namespace_is_deleted,
        labels_change,
        template_changes,
        node_is_cordoned,
        node_is_tainted,
        node_is_drained,
        node_is_deleted,
        node_labels_change,
        credentials_are_rotated,
        clock_jumps,
        clock_jumps_back,
    )
}
KINDS = {
    "Job": (JOB, JOBS),
    "Deployment": (DEPLOYMENT, DEPLOYMENTS),
    "JobSet": (JOBSET, JOBSETS),
    "StatefulSet": (STATEFUL_SET, STATEFUL_SETS),
    "Composite": (JOBSET, JOBSETS),
}
OF_NAMED_CLASS = (class_is_made_anew, class_is_removed)


async def outcome(kind: str, state: State, change: Change, *, gang: bool) -> dict[str, object]:
    name, resource = KINDS[kind]
    cluster = Cluster()
    for node in "abc":
        cluster.node(node, 2, pool="usual")
    cluster.priority_class("usual", 7, default=True)
    cluster.priority_class("named", 9)
    await cluster.start()
    try:
        spec: Json = {"nodeSelector": {"pool": "usual"}}
        if change in OF_NAMED_CLASS:
            spec["priorityClassName"] = "named"
        made = workload(name, "w", SIZE, gang=gang, **spec)
        notes = made["metadata"]["annotations"]
        if kind == "Composite":
            (role,) = made["spec"]["replicatedJobs"]
            role["template"]["spec"] |= {"parallelism": 1, "completions": 1}
            made["spec"]["replicatedJobs"] = [role | {"name": f"r{at}"} for at in range(SIZE)]
        if gang and kind == "Composite":
            notes["scheduling.muster.dev/gang-mode"] = kind
        if gang and state == partly_bound:
            notes["scheduling.muster.dev/min-count"] = "2"
        cluster.create(resource, made)
        life = Life(cluster, resource)
        await state(life)
        before = life.running()
        await change(life)
        if state == waits:
            await cluster.pass_time(3)
            for node in "abc":
                if cluster.api.stored(NODES, node) and (node, change) != ("a", node_is_cordoned):
                    life.node(node, {"spec": {"unschedulable": None}})
        await cluster.pass_time(REST)
        found: dict[str, object] = {"kept": len(before & life.running()), "then": life.numbers()}
        # Even if nothing has happened to it yet.
        life.remove_pods(1)
        await cluster.pass_time(REST)
        found["after a loss"] = life.numbers()
        # After any change, its deletion leaves no objects.
        cluster.api.recover()
        if cluster.api.stored(resource, "w", SPACE) is not None:
            life.remove(resource, "w")
        await cluster.pass_time(45)
        return found | {"is gone": life.is_empty()}
    finally:
        await cluster.stop()


def cells() -> Iterator[ParameterSet]:
    """Yield all cells; only a diagonal that has each change once is short."""
    for (row, change), (column, state), (page, kind) in product(
        *(enumerate(it) for it in (CHANGES, STATES, KINDS))
    ):
        short = (row % len(STATES), (row // len(STATES) + row) % len(KINDS)) == (column, page)
        marks = [] if short else [pytest.mark.long]
        yield pytest.param(kind, state, change, id=f"{kind} {state}: {change}", marks=marks)


@pytest.mark.parametrize(("kind", "state", "change"), [*cells()])
def test_a_gang_fares_as_plain_pods_do(kind: str, state: str, change: str) -> None:
    cell = (kind, STATES[state], CHANGES[change])
    plain, gang = (asyncio.run(outcome(*cell, gang=it)) for it in (False, True))

    assert gang == plain
    assert plain["is gone"]
