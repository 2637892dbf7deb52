"""Each pod of Muster's that does not run states why, and so does an event on its Job (KEP-4671).

`tests/scheduler/status/test_no_silence.py` has the complete table, in memory.
"""

from dataclasses import dataclass, field

import pytest

from api.constants import LABEL_POD_GROUP, LABEL_TEMPLATE, LABEL_WORKLOAD, SCHEDULER_NAME
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, WORKLOADS, Json, job, of_job, pod, pod_group
from kube.base.errors import Invalid
from kube.client.resources import EVENTS, JOBS, PODS

_WAITS = "CoschedulingNotMeetMinMember"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A Job of one pod with these labels, which waits for the reason with the message.

    `minimum` is the minCount of a group of the Job's name that is created first, 0 if none is.
    """

    name: str
    reason: str
    message: str
    labels: dict[str, str] = field(default_factory=dict)
    minimum: int = 0
    spec: Json = field(default_factory=dict)


def _template(workload: str, template: str) -> dict[str, str]:
    return {LABEL_WORKLOAD: workload, LABEL_TEMPLATE: template}


SITUATIONS = (
    Waiting("no-group", _WAITS, 'PodGroup "no-group" does not exist.'),
    Waiting(
        "no-workload",
        _WAITS,
        'Workload "absent", which does not exist: create it',
        _template("absent", "t"),
    ),
    Waiting(
        "no-template",
        _WAITS,
        'Workload "w" has no template "absent" in its podGroupTemplates',
        _template("w", "absent"),
    ),
    Waiting(
        "taken-t",
        _WAITS,
        'PodGroup "taken-t" belongs to a user, not to the owner of the pod.',
        _template("taken", "t"),
        minimum=1,
    ),
    Waiting("few", _WAITS, "The group has 1 of 2 pods.", minimum=2),
    Waiting(
        "beside-a-gate",
        _WAITS,
        "1 of 2 pods, not counting 1 with schedulingGates",
        minimum=2,
    ),
    Waiting("mixed", "Invalid", "The group has 1 pod of another scheduler.", minimum=1),
    Waiting(
        "too-large",
        "Unschedulable",
        "Insufficient cpu",
        minimum=1,
        spec={"resources": {"requests": {"cpu": "99"}}},
    ),
)


async def test_what_does_not_run_states_why_and_its_job_has_one_event(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(WORKLOADS, _workload("w"))
    for it in SITUATIONS:
        if it.minimum:
            await env.create(POD_GROUPS, pod_group(it.name, it.minimum))
    gated = pod("gated", env.name, group="beside-a-gate")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    await env.create(PODS, gated)
    await env.create(PODS, pod("other", env.name, group="mixed", scheduler="someone-else"))
    for it in SITUATIONS:
        await env.create(JOBS, _job(env, it))

    for it in SITUATIONS:
        await _states(env, it)
    assert await _condition(env, "metadata.name=gated") == (
        "SchedulingGated",
        "Scheduling is blocked due to non-empty scheduling gates",
    )


@pytest.mark.parametrize(("label", "missing"), [(LABEL_WORKLOAD, LABEL_TEMPLATE)])
async def test_a_pod_that_names_no_template_never_starts_alone(
    env: Environment, label: str, missing: str
) -> None:
    await env.add_node(cpu=4)
    for scheduler in (SCHEDULER_NAME, "default-scheduler"):
        made = pod("p", env.name, scheduler=scheduler)
        made["metadata"]["labels"] = {label: "w"}
        with pytest.raises(Invalid) as error:
            await env.create(PODS, made)
        assert f"metadata.labels[{missing}]: Required value" in str(error.value)


async def test_a_workload_whose_name_fits_no_label_is_rejected(env: Environment) -> None:
    await env.create(WORKLOADS, _workload("w" * 63))
    with pytest.raises(Invalid) as error:
        await env.create(WORKLOADS, _workload("w" * 64))
    assert "must be no more than 63 characters" in str(error.value)


def _workload(name: str) -> Json:
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name},
        "spec": {
            "podGroupTemplates": [{"name": "other", "schedulingPolicy": {"gang": {"minCount": 1}}}]
        },
    }


def _job(env: Environment, it: Waiting) -> Json:
    made = job(it.name, env.name, pods=1, mode=None)
    template = made["spec"]["template"]
    template.setdefault("metadata", {})["labels"] = it.labels or {LABEL_POD_GROUP: it.name}
    template["spec"]["schedulerName"] = SCHEDULER_NAME
    template["spec"]["containers"][0] |= it.spec
    return made


async def _states(env: Environment, it: Waiting) -> None:
    """Wait until the pod of the Job and one event on the Job state why it waits."""
    told: list[str] = []

    async def probe() -> bool:
        told[:] = [str(await _condition(env, of_job(it.name)))]
        events = (await env.client.list(EVENTS, env.name))["items"]
        about = {"kind": "Job", "name": it.name}
        warnings = [
            (each["reason"], each["message"], each.get("count"))
            for each in events
            if each["type"] == "Warning" and about.items() <= each["involvedObject"].items()
        ]
        told.extend(map(str, warnings))
        reason, message = await _condition(env, of_job(it.name))
        right = reason == it.reason and it.message in message
        return right and [it.message in said for _, said, _ in warnings] == [True]

    try:
        await env.until(f"{it.name} to state why it waits", probe)
    except TimeoutError as error:
        raise AssertionError("\n".join(told)) from error


async def _condition(env: Environment, selector: str) -> tuple[str, str]:
    """Return reason and message of the first pod's PodScheduled while it is False."""
    if selector.startswith("metadata.name="):
        name = selector.removeprefix("metadata.name=")
        found = [it for it in await env.pods() if it["metadata"]["name"] == name]
    else:
        found = await env.pods(selector)
    for each in found:
        for condition in each.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition["reason"], condition["message"]
    return "", ""
