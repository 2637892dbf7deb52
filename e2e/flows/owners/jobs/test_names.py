"""Names that are joined from several names: no two owners have one, and earlier ones stay."""

import asyncio

from api.constants import (
    LABEL_REPLICA_KEY,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    WORKLOAD,
    finalizer_of,
)
from api.names import JOINED, implicit_pod_group, jobset_pod_group
from api.ownership import Owner
from e2e.flows.owners.jobs.queries import names, uids
from e2e.flows.owners.jobs.test_templates import labelled, leaf, workload
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, SCHEDULER, Muster
from e2e.harness.objects import POD_GROUPS, WORKLOADS, jobset, of_jobset, replicated_job
from kube.client.resources import JOBSETS, PODS


def by(name: str, template: str, key: str = "") -> dict[str, str]:
    said = {LABEL_WORKLOAD: name, LABEL_TEMPLATE: template}
    return said | ({LABEL_REPLICA_KEY: key} if key else {})


async def test_workloads_whose_joined_names_are_equal_have_a_group_each(env: Environment) -> None:
    """Each gang starts by itself; in one group, neither would start, or both together."""
    await env.add_node(cpu=6)
    forms = (("a", "b-c", ""), ("a-b", "c", ""), ("a", "b", "c"))
    for name, template, _ in forms[:2]:
        await env.create(WORKLOADS, workload(name, leaf(template, 2)))
    for number, form in enumerate(forms[:2]):
        for at in range(2):
            await env.create(PODS, labelled(f"p{number}-{at}", env, **by(*form)))

    await env.runs("", 4)
    for form in forms[:2]:
        await env.scheduled(implicit_pod_group(*form))
    assert len({implicit_pod_group(*form) for form in forms}) == 3


async def test_jobsets_that_come_together_have_a_group_each(env: Environment) -> None:
    """JobSet `a-b`, and replicatedJob `b` of JobSet `a`."""
    await env.add_node(cpu=5)
    wide = jobset("a-b", replicated_job("w", env.name, replicas=1, pods=3))
    part = jobset("a", replicated_job("b", env.name, replicas=1, pods=2, mode="Gang"), mode=None)
    await asyncio.gather(*(env.create(JOBSETS, made) for made in (wide, part)))

    await env.runs(of_jobset("a-b"), 3)
    await env.runs(of_jobset("a"), 2)
    own = jobset_pod_group(env.name, "a", "b", form=JOINED)
    assert await names(env, POD_GROUPS) == sorted(["pg-a-b", own])
    for pod in await env.pods(of_jobset("a")):
        assert pod["metadata"]["labels"]["scheduling.muster.dev/pod-group"] == own


async def test_a_group_that_an_earlier_version_named_keeps_its_gang(
    env: Environment, running_muster: Muster
) -> None:
    """The name a-b-c is that of version 0.2 for Workload `a-b` and template `c`."""
    await env.add_node(cpu=4)
    made = await env.create(WORKLOADS, workload("a-b", leaf("c", 2)))
    owner = Owner(WORKLOAD, env.name, "a-b", made["metadata"]["uid"])
    group = owner.generated(POD_GROUPS, "a-b-c", blocks=True)
    group["metadata"]["finalizers"] = [finalizer_of("PodGroup")]
    reference = {"workloadName": "a-b", "templateName": "c"}
    policy = {"gang": {"minCount": 2}}
    await env.create(
        POD_GROUPS, group | {"spec": {"workloadRef": reference, "schedulingPolicy": policy}}
    )
    for name in ("p0", "p1"):
        await env.create(PODS, labelled(name, env, **by("a-b", "c")))
    await env.runs("", 2)
    await env.scheduled("a-b-c")
    before = await uids(env)

    for name in (CONTROLLER, SCHEDULER):
        await running_muster.restart(name)
    await env.create(PODS, labelled("more", env, **by("a-b", "c")))
    await env.runs("", 3)
    await env.delete(PODS, "p0")
    await env.has_pods("", 2)
    await env.create(PODS, labelled("instead", env, **by("a-b", "c")))
    await env.runs("", 3)

    assert before.items() <= (await uids(env)).items()
    assert await names(env, POD_GROUPS) == ["a-b-c"]
    await env.delete(WORKLOADS, "a-b")
    await env.delete_pods()
    await env.empty()
