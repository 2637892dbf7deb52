"""Attacks by groups that expect pods: attacks as steps, and scenarios on shared nodes.

A namespace may have expected pods with `MOST_CPU` cores and a fraction, for `MOST_SECONDS`.
"""

from collections.abc import Sequence
from typing import Final

from api.constants import (
    ANNOTATION_HOLD_SECONDS,
    LABEL_POD_GROUP,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
)
from e2e.faults.hostile.attacks import Attack, pod_step
from e2e.faults.hostile.scenarios import Scenario, arena, bound, says
from e2e.faults.hostile.stage import Stage, on
from e2e.faults.hostile.steps import GROUPS, Step, create
from e2e.faults.hostile.tenants import Tenant
from e2e.harness.devices import claim_template, request
from e2e.harness.objects import Json
from e2e.harness.support.waiting import eventually
from kube.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES

MOST_CPU: Final = 6
MOST_SECONDS: Final = 10
HOLDING: Final[Json] = {
    "requestsPerNamespace": {"cpu": f"{MOST_CPU}.5"},
    "mostSeconds": MOST_SECONDS,
}
"""`scheduler.holding` of the configuration; the number of pods is the default."""

_WITHIN: Final = 60.0
_NOW: Final = {"gracePeriodSeconds": 0}


def _kind(name: str, count: int, *, of: Json | None = None, **requests: str) -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": requests}}
    spec = {"containers": [container], "schedulerName": "muster-scheduler", **(of or {})}
    return {"name": name, "count": count, "template": {"spec": spec}}


def _expecting(name: str, *kinds: Json, minimum: int = 1) -> Step:
    """Return a group that requests its held places for the longest possible time."""
    meta = {"annotations": {ANNOTATION_HOLD_SECONDS: "1000000000"}}
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "expectedPods": list(kinds)}
    return create(GROUPS, name, {"metadata": meta, "spec": spec})


def _driver(group: str, room: str = "hostile") -> Step:
    """Return the only pod of a group that is ever created."""
    asks = {"resources": {"requests": {"cpu": "1m"}}}
    labels = {LABEL_POD_GROUP: group}
    return pod_step(f"driver-{group}", of=on(room), container=asks, labels=labels)


def many_and_huge(size: int = 60) -> Sequence[Step]:
    """Return groups with the maximum number of kinds, of huge counts, selectors and requests.

    Every second group has small counts, so that they count, and no two kinds are equal.
    """
    steps: list[Step] = []
    for at in range(size):
        kinds = []
        for n in range(MAX_EXPECTED_KINDS):
            keys = {f"hostile.example/k{at}-{n}-{key}": "v" for key in range(70)}
            if at % 2:
                kinds.append(_kind(f"k{n}", 1, of=on("hostile"), memory=f"{at * 8 + n}Ki"))
            else:
                huge = {"memory": "9e18", f"hostile.example/r{at}-{n}": "9e18"}
                kinds.append(_kind(f"k{n}", MAX_EXPECTED_PODS, of={"nodeSelector": keys}, **huge))
        steps += [_expecting(f"huge-{at}", *kinds), _driver(f"huge-{at}")]
    return steps


def drivers_alone(size: int = 200) -> Sequence[Step]:
    """Return groups with a running driver and no workers; together they expect 1,000 pods."""
    steps: list[Step] = []
    for at in range(size):
        kinds = (_kind("driver", 1, of=on("hostile")), _kind("worker", 5, of=on("hostile")))
        steps += [_expecting(f"alone-{at}", *kinds, minimum=6), _driver(f"alone-{at}")]
    return steps


def come_and_go(size: int = 12) -> Sequence[Step]:
    """Return groups whose templates and counts change repeatedly, created and deleted quickly."""
    names = [f"turns-{at}" for at in range(size)]
    steps = [_expecting(name, _kind("worker", 1, of=on("hostile"))) for name in names]
    steps += [_driver(name) for name in names]
    for turn in range(15):
        count = (0, 70, MAX_EXPECTED_PODS, 3)[turn % 4]
        kind = f"worker{turn % 3}"
        of = {**on("hostile"), "priority": turn} if turn % 2 else {"nodeSelector": {"k": str(turn)}}
        changed = {"spec": {"expectedPods": [_kind(kind, count, of=of, memory=f"{turn}Mi")]}}
        steps += [Step("patch", GROUPS, name, changed) for name in names]
        fast = [f"fast-{turn}-{at}" for at in range(size)]
        for name in fast:
            workers = _kind("worker", 60, of=on("hostile"))
            steps += [_expecting(name, workers), _driver(name)]
        for name in fast:
            steps += [Step("delete", PODS, f"driver-{name}", _NOW), Step("delete", GROUPS, name)]
    return steps


def claims_come_and_go(size: int = 30) -> Sequence[Step]:
    """Return groups that expect claims of templates that are created, changed and deleted."""
    steps: list[Step] = []
    claims = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "device"}]}
    for at in range(size):
        kind = _kind("worker", 30, of={**on("hostile"), **claims})
        steps += [_expecting(f"claims-{at}", kind), _driver(f"claims-{at}")]
    for turn in range(size):
        body = claim_template("device", request(f"none-{turn}", 1 + turn % 32))
        steps.append(create(RESOURCE_CLAIM_TEMPLATES, "device", {"spec": body["spec"]}))
        steps.append(Step("delete", RESOURCE_CLAIM_TEMPLATES, "device"))
    return steps


ATTACKS: Final[tuple[Attack, ...]] = (many_and_huge, drivers_alone, come_and_go)
CLAIM_ATTACKS: Final[tuple[Attack, ...]] = (claims_come_and_go,)


async def drivers_hold_no_more_than_is_allowed(stage: Stage) -> None:
    """Fifty drivers expect two hundred cores; the namespace holds six, and the rest is free."""
    async with arena(stage, cpu=MOST_CPU + stage.calm.size + 1) as (_, calm):
        for at in range(50):
            await _begin(stage.mallory, f"many-{at}", workers=MOST_CPU // 2 + at % 2)
        await _holds(stage.mallory)

        for name in ("one", "two"):
            await calm.ask(name)
            await bound(calm.tenant, calm.size)
            await _holds(stage.mallory)  # the status follows a moment later
            assert await _held(stage.mallory) <= MOST_CPU
            await calm.forget(name)
            await bound(calm.tenant, 0)


async def a_driver_alone_gives_its_places_up(stage: Stage) -> None:
    """A driver alone loses its held places, and gets none while it runs, whatever it expects."""
    async with arena(stage, cpu=MOST_CPU + 1) as (_, calm):
        mallory = stage.mallory
        await _begin(mallory, "alone", workers=MOST_CPU)
        await _holds(mallory)

        await calm.ask("patient")
        await bound(calm.tenant, calm.size)
        await calm.forget("patient")
        await bound(calm.tenant, 0)

        await _write_anew(mallory, "alone", "again")
        await calm.ask("next")
        await bound(calm.tenant, calm.size)
        await _holds(mallory, any_held=False)  # the status follows a moment later


async def kinds_written_anew_do_not_prolong_it(stage: Stage) -> None:
    """A group that repeatedly replaces its expected pods does not extend the holding time."""
    async with arena(stage, cpu=MOST_CPU + 1) as (_, calm):
        mallory = stage.mallory
        await _begin(mallory, "alone", workers=MOST_CPU)
        await _holds(mallory)
        await calm.ask("patient")
        turn = 0

        async def probe() -> bool:
            nonlocal turn
            turn += 1
            await _write_anew(mallory, "alone", f"of{turn}")
            return await calm.bound("patient") == calm.size

        await eventually(probe, "the gang that waits to be bound", _WITHIN)


async def groups_made_anew_do_not_pass_who_waits(stage: Stage) -> None:
    """Each driver's group is replaced by another's, so that no holding time ever ends."""
    async with arena(stage, cpu=MOST_CPU + 1) as (_, calm):
        mallory = stage.mallory
        await _begin(mallory, "anew-0", workers=MOST_CPU)
        await _holds(mallory)
        await calm.ask("patient")
        await says(calm.tenant, "patient", "Unschedulable")

        for at in range(1, 20):
            await _begin(mallory, f"anew-{at}", workers=MOST_CPU)
            old = f"anew-{at - 1}"
            deletions = [Step("delete", PODS, f"driver-{old}", _NOW), Step("delete", GROUPS, old)]
            await mallory.insist(deletions)

        await bound(calm.tenant, calm.size)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    drivers_hold_no_more_than_is_allowed,
    a_driver_alone_gives_its_places_up,
    kinds_written_anew_do_not_prolong_it,
    groups_made_anew_do_not_pass_who_waits,
)


async def _begin(tenant: Tenant, name: str, *, workers: int) -> None:
    """Create a group with its driver; the workers would have a core each."""
    await tenant.insist([_expecting(name, *_kinds(workers), minimum=1 + workers)])
    await tenant.insist([_driver(name, "arena")])


def _kinds(workers: int) -> tuple[Json, ...]:
    of = on("arena")
    return _kind("driver", 1, of=of, cpu="1m"), _kind("worker", workers, of=of, cpu="1")


async def _write_anew(tenant: Tenant, group: str, suffix: str) -> None:
    """Rename the group's kinds, so that all of them are different."""
    kinds = [{**kind, "name": f"{kind['name']}-{suffix}"} for kind in _kinds(MOST_CPU)]
    await tenant.insist([Step("patch", GROUPS, group, {"spec": {"expectedPods": kinds}})])


async def _held(tenant: Tenant) -> int:
    """Return the number of held places in the statuses of the tenant's groups."""
    said = [(it.get("status") or {}).get("heldPlaces") or {} for it in await tenant.objects(GROUPS)]
    return sum(each["count"] for held in said for each in held.get("pods", ()))


async def _holds(tenant: Tenant, *, any_held: bool = True) -> None:
    async def probe() -> bool:
        return (await _held(tenant) > 0) == any_held

    what = "places" if any_held else "no places"
    await eventually(probe, f"{what} to be held for {tenant.name}", _WITHIN)
