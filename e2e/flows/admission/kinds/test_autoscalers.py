"""The autoscaler hints on pods of generated groups, through a complete API server and JobSet's."""

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_DO_NOT_DISRUPT,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_SAFE_TO_EVICT,
    ANNOTATION_TOPOLOGY,
    JOB_LABEL_UID,
    JOBSET_LABEL_UID,
    LABEL_POD_GROUP,
)
from api.group_affinity import REQUIRED
from e2e.harness.environment import Environment
from e2e.harness.groups import members
from e2e.harness.objects import (
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
)
from kube.client.resources import JOBS, JOBSETS, PODS

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def terms(pod: Json) -> list[Json]:
    found: list[Json] = pod["spec"].get("affinity", {}).get("podAffinity", {}).get(REQUIRED, [])
    return found


def told(pod: Json) -> tuple[str | None, str | None]:
    notes = pod["metadata"].get("annotations", {})
    return notes.get(ANNOTATION_DO_NOT_DISRUPT), notes.get(ANNOTATION_SAFE_TO_EVICT)


def ask(obj: Json, **words: str) -> Json:
    keys = {"topology": ANNOTATION_TOPOLOGY, "mode": ANNOTATION_DISRUPTION_MODE}
    notes = obj["metadata"].setdefault("annotations", {})
    notes |= {keys[word]: value for word, value in words.items()}
    return obj


async def test_the_pods_of_a_job_say_where_and_that_they_stay(env: Environment) -> None:
    node = await env.add_node(cpu=4, labels={ZONE: "a"})
    await env.add_node(cpu=3, labels={ZONE: "b"})

    await env.create(JOBS, ask(job("j", env.name, pods=4), topology=ZONE, mode="All"))
    await env.runs(of_job("j"), 4)

    pods = await env.pods(of_job("j"))
    assert {pod["spec"]["nodeName"] for pod in pods} == {node}
    assert {told(pod) for pod in pods} == {("true", "false")}
    for each in pods:
        (term,) = terms(each)
        assert term["topologyKey"] == ZONE
        assert term["labelSelector"]["matchLabels"] == {LABEL_POD_GROUP: "pg-job-j"}
        assert term["matchLabelKeys"] == [JOB_LABEL_UID]


async def test_a_job_that_asks_for_neither_says_nothing(env: Environment) -> None:
    await env.add_node(cpu=2)

    await env.create(JOBS, job("j", env.name, pods=2))
    await env.runs(of_job("j"), 2)

    for each in await env.pods(of_job("j")):
        assert (terms(each), told(each)) == ([], (None, None))


async def test_the_pods_of_a_tree_name_each_level(env: Environment) -> None:
    for _ in range(2):
        await env.add_node(cpu=2, labels={REGION: "r", ZONE: "a"})
    worker = replicated_job("w", env.name, replicas=2, pods=2)
    worker["template"]["metadata"] = {"annotations": {ANNOTATION_TOPOLOGY: ZONE}}
    made = ask(jobset("s", worker, mode="Composite"), topology=REGION, mode="All")

    await env.create(JOBSETS, made)
    await env.runs(of_jobset("s"), 4)

    pods = await env.pods(of_jobset("s"))
    assert {told(each) for each in pods} == {("true", "false")}
    for each in pods:
        tree, group = terms(each)
        labels = each["metadata"]["labels"]
        assert (tree["topologyKey"], group["topologyKey"]) == (REGION, ZONE)
        assert tree["matchLabelKeys"] == group["matchLabelKeys"] == [JOBSET_LABEL_UID]
        named = {LABEL_POD_GROUP: labels[LABEL_POD_GROUP]}
        assert group["labelSelector"]["matchLabels"] == named


async def test_the_workload_of_a_user_is_told_instead(env: Environment) -> None:
    await env.add_node(cpu=2, labels={ZONE: "a"})
    entry = {
        "name": "t",
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": ZONE}]},
        "disruptionMode": {"all": {}},
    }
    reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    workload = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": "mine"},
        "spec": {"controllerRef": reference, "podGroupTemplates": [entry]},
    }
    await env.create(WORKLOADS, workload)

    async def known() -> bool:
        """The webhook observes Workloads by its watch."""
        asked = job("j", env.name, pods=2)
        answer = await env.client.create(JOBS, asked, namespace=env.name, dry_run=True)
        return bool(terms(answer["spec"]["template"]))

    await env.until("the webhook to know the Workload", known)
    await env.create(JOBS, job("j", env.name, pods=2))
    await env.runs(of_job("j"), 2)

    for each in await env.pods(of_job("j")):
        assert [term["topologyKey"] for term in terms(each)] == [ZONE]
        assert told(each) == ("true", "false")


async def test_later_members_go_where_the_first_ones_run(env: Environment) -> None:
    await env.add_node(cpu=2, labels={ZONE: "a"})
    made = ask(job("j", env.name, pods=4), topology=ZONE)
    made["metadata"]["annotations"][ANNOTATION_MIN_COUNT] = "2"
    await env.create(JOBS, made)
    await env.runs(of_job("j"), 2)

    await env.add_node(cpu=4, labels={ZONE: "b"})
    await env.create(JOBS, job("other", env.name, pods=4))
    await env.runs(of_job("other"), 4)
    assert await env.running(of_job("j")) == 2

    await env.add_node(cpu=2, labels={ZONE: "a"})
    await env.runs(of_job("j"), 4)


async def test_a_look_alike_binds_its_own_pod_and_no_other(env: Environment) -> None:
    """A pod with the term of another gang is placed with that gang's pods, as the term requires."""
    first = await env.add_node(cpu=2, labels={ZONE: "a"})
    await env.create(JOBS, ask(job("j", env.name, pods=1), topology=ZONE))
    await env.runs(of_job("j"), 1)
    await env.add_node(cpu=4, labels={ZONE: "b"})
    (member,) = await env.pods(of_job("j"))
    await env.create(POD_GROUPS, pod_group("own", 1))
    forged = pod("forged", env.name, group="own")
    forged["spec"]["affinity"] = {"podAffinity": {REQUIRED: terms(member)}}

    await env.create(PODS, forged)
    await env.runs(members("own"), 1)

    (stored,) = await env.pods(members("own"))
    assert stored["spec"]["nodeName"] == first
