"""The forest of groups that every view draws."""

from typing import Any

import pytest

from api.constants import ANNOTATION_GROUP_BY, ANNOTATION_MADE_FOR, ANNOTATION_ROOT_OF
from api.names import pod_group_of_value
from cli.trees.snapshot_tree import branches
from cli.trees.text import tree_lines
from cli.trees.tree import Objects, build
from scheduler.core.search.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder


def _object(name: str, **parts: Any) -> dict[str, Any]:
    owners = [{"kind": kind, "uid": uid} for kind, uid in parts.pop("owners", ())]
    metadata = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "ownerReferences": owners,
    }
    return {"metadata": {**metadata, **parts.pop("metadata", {})}, **parts}


def _pod(name: str, group: str, node: str = "") -> dict[str, Any]:
    labels = {"scheduling.muster.dev/pod-group": group}
    return _object(name, metadata={"labels": labels}, spec={"nodeName": node} if node else {})


def _group(
    name: str, minimum: int, *, reason: str = "", parent: str = "", **parts: Any
) -> dict[str, Any]:
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False" if reason else "True",
        "reason": "Unschedulable" if reason else "Scheduled",
        "message": reason,
    }
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return _object(name, spec=spec, status={"conditions": [condition]}, **parts)


def test_a_group_that_an_earlier_version_named_has_its_pods() -> None:
    notes = {"app.kubernetes.io/managed-by": "muster"}
    made_for = {ANNOTATION_MADE_FOR: "scheduling.muster.dev/Workload/a-b/u"}
    group = _group("a-b-c", 1, metadata={"labels": notes, "annotations": made_for})
    group["spec"]["workloadRef"] = {"workloadName": "a-b", "templateName": "c"}
    labels = {"scheduling.muster.dev/workload": "a-b", "scheduling.muster.dev/template": "c"}
    pod = _object("p", metadata={"labels": labels}, spec={"nodeName": "n"})

    (found,) = build(Objects(pod_groups=[group], pods=[pod]))

    assert (found.members, found.placed) == (1, 1)


def test_a_jobset_shows_its_group_its_pods_and_where_they_run() -> None:
    objects = Objects(
        jobsets=[_object("js")],
        pod_groups=[_group("pg-js", 2, owners=[("JobSet", "uid-js")])],
        pods=[_pod("a", "pg-js", "n1"), _pod("b", "pg-js", "n1")],
    )

    lines = tree_lines(build(objects))

    assert lines == [
        "JobSet js: Scheduled, 2 of 2 pods scheduled",
        "└─ PodGroup pg-js: Scheduled, 2 of 2 pods scheduled (minCount 2) on n1 x2",
    ]


def test_a_waiting_group_gives_its_reason_below_its_line() -> None:
    group = _group("pg-js", 2, reason="needs 2 pods, room for 1", owners=[("JobSet", "uid-js")])
    objects = Objects(jobsets=[_object("js")], pod_groups=[group], pods=[_pod("a", "pg-js")])

    lines = tree_lines(build(objects))

    assert lines[1:] == [
        "└─ PodGroup pg-js: Unschedulable, 0 of 1 pods scheduled (minCount 2)",
        "      needs 2 pods, room for 1",
    ]


def test_the_reason_of_a_tree_is_printed_once() -> None:
    why = "0/5 nodes are available: 5 Insufficient cpu."
    waits = f'Waiting for PodGroup "b": {why}'
    objects = Objects(
        composites=[_group("top", 2, reason=waits)],
        pod_groups=[
            _group("a", 1, parent="top", reason=waits),
            _group("b", 1, parent="top", reason=why),
            _group("c", 1, parent="top", reason='Waiting for PodGroup "other": no pod.'),
        ],
    )

    reasons = [line.strip("│ ") for line in tree_lines(build(objects))[1::2]]

    short = 'Waiting for PodGroup "b".'
    assert reasons == [short, short, why, 'Waiting for PodGroup "other": no pod.']


def test_native_groups_are_drawn_next_to_those_of_the_same_name() -> None:
    """They have the kinds that `kubectl` knows them by."""
    member = _object("n", spec={"schedulingGroup": {"podGroupName": "g"}, "nodeName": "n0"})
    objects = Objects(
        pod_groups=[_group("g", 1, reason="no pod")],
        pods=[member],
        native_composites=[_object("top", spec={"schedulingPolicy": {"basic": {}}})],
        native_pod_groups=[_group("g", 1, parent="top")],
    )

    assert tree_lines(build(objects)) == [
        "PodGroup g: Unschedulable, 0 of 0 pods scheduled (minCount 1)",
        "   no pod",
        "CompositePodGroup.scheduling.k8s.io top: Starting, 1 of 1 pods scheduled",
        "└─ PodGroup.scheduling.k8s.io g: Scheduled, 1 of 1 pods scheduled (minCount 1) on n0 x1",
    ]


@pytest.mark.parametrize("composite", [False, True])
@pytest.mark.parametrize("ours", [True, False])
def test_an_empty_native_group_does_not_count_next_to_musters(ours: bool, composite: bool) -> None:
    """The Job controller creates it; the Job has the annotation that asks for Muster's."""
    owner = [("Job", "uid-j")]
    mine = [_group("pg-job-j", 1, owners=owner)] if ours else []
    empty = _group("j-abc", 1, reason="no pod", owners=owner)
    objects = Objects(
        jobs=[_object("j")],
        pod_groups=mine,
        native_composites=[empty] if composite else [],
        native_pod_groups=[] if composite else [empty],
        pods=[_pod("a", "pg-job-j", node="n0")],
    )

    (job,) = build(objects)

    assert (job.state, len(job.children)) == (("Scheduled", 2) if ours else ("Unschedulable", 1))


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("JobSet", {"terminalState": "Failed"}, "Failed"),
        ("JobSet", {"terminalState": "Completed"}, "Completed"),
        ("Job", {"conditions": [{"type": "Failed", "status": "True"}]}, "Failed"),
        ("Job", {"conditions": [{"type": "Failed", "status": "False"}]}, "Unschedulable"),
        ("Job", {}, "Unschedulable"),
    ],
)
def test_the_groups_of_an_owner_that_has_ended_wait_for_nothing(
    kind: str, status: dict[str, Any], state: str
) -> None:
    owner = _object("a", status=status)
    group = _group("pg-a", 2, reason="The group has 0 of 2 pods.", owners=[(kind, "uid-a")])
    objects = Objects(
        jobsets=[owner] if kind == "JobSet" else [],
        jobs=[owner] if kind == "Job" else [],
        pod_groups=[group],
    )

    (found,) = build(objects)

    (below,) = found.children
    assert (found.state, below.state) == (state, state)
    assert bool(below.reason) is (state == "Unschedulable")


def test_an_owner_without_groups_is_left_out() -> None:
    assert build(Objects(jobs=[_object("plain")], pods=[_object("p", spec={})])) == ()


def test_a_group_whose_owner_is_gone_stands_alone() -> None:
    group = _group("pg-js", 1, owners=[("JobSet", "uid-gone")])

    (branch,) = build(Objects(pod_groups=[group]))

    assert (branch.kind, branch.name) == ("PodGroup", "pg-js")


def test_a_composite_adds_up_the_pods_of_its_children() -> None:
    composite = _object("cpg", spec={"schedulingPolicy": {"gang": {"minGroupCount": 2}}})
    groups = [_group(name, 1, parent="cpg") for name in ("a", "b")]
    objects = Objects(
        composites=[composite], pod_groups=groups, pods=[_pod("p", "a", "n1"), _pod("q", "b")]
    )

    (branch,) = build(objects)

    assert (branch.minimum, branch.members, branch.placed, len(branch.children)) == (2, 2, 1, 2)


def test_a_cycle_of_parents_is_cut_and_does_not_hang() -> None:
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    top = _object("a", spec=spec)
    loop = _object("a", spec={**spec, "parentCompositePodGroupName": "a"})

    (branch,) = build(Objects(composites=[top, loop]))

    assert branch.children[0].children == ()


def test_a_chain_of_thousands_of_composites_is_shown_as_far_as_a_tree_may_reach() -> None:
    policy: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    chain = [_object("c0", spec=policy)]
    for number in range(1, 3_000):
        spec = {**policy, "parentCompositePodGroupName": f"c{number - 1}"}
        chain.append(_object(f"c{number}", spec=spec))

    lines = tree_lines(build(Objects(composites=chain)))

    assert len(lines) == 9
    assert "CompositePodGroup c8: " in lines[-1]


@pytest.mark.parametrize(
    ("placed", "evicted", "want"),
    [
        (2, False, ["Scheduled, 0 of 0 pods scheduled (minCount 2)"]),
        (1, False, ["Waiting, 0 of 0 pods scheduled (minCount 2)", "   no room"]),
        (0, True, ["Waiting, 0 of 0 pods scheduled (minCount 2)", "   Preempted for big. no room"]),
    ],
)
def test_a_group_that_ran_may_wait_again(placed: int, evicted: bool, want: list[str]) -> None:
    """Its condition remains True; a blocker may also be about pods beyond minCount."""
    group = _group("g", 2)
    if evicted:
        message = "muster-scheduler: preempted for big"
        target = {"type": "DisruptionTarget", "status": "True", "message": message}
        group["status"]["conditions"].append(target)
    group["status"] |= {"scheduledPods": placed, "blocker": {"summary": "no room"}}

    lines = tree_lines(build(Objects(pod_groups=[group])))

    assert [line.removeprefix("PodGroup g: ") for line in lines] == want


LATE = "0/2 nodes are available: 2 Insufficient cpu. The group needs capacity for 2 more pods."


@pytest.mark.parametrize(
    ("status", "nodes", "phase", "want"),
    [
        pytest.param({}, ("n1", "n2"), "", "Starting, 2 of 2", id="all bound"),
        pytest.param({}, ("n1", ""), "", "Starting, 1 of 2", id="the second one is being bound"),
        pytest.param({}, ("n1", "n2"), "Succeeded", "Starting, 2 of 2", id="all bound and ended"),
        pytest.param({"scheduledPods": 1}, ("n1", "n2"), "", "Starting, 2 of 2", id="one counted"),
        pytest.param({}, ("", ""), "", "Unschedulable, 0 of 2", id="none bound"),
        pytest.param({"scheduledPods": 1}, ("n1", ""), "", "Unschedulable, 1 of 2",
                     id="the second one could not be bound"),
        pytest.param({}, ("n1", ""), "Failed", "Unschedulable, 1 of 2", id="one failed before"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("condition", [True, False])
def test_the_condition_of_a_group_that_starts_is_late(
    status: dict[str, Any], nodes: tuple[str, str], phase: str, want: str, *, condition: bool
) -> None:
    """The scheduler writes it after the Bindings. The tree shows no reason that is out of date."""
    group = _group("pg-js", 2, reason=LATE, owners=[("JobSet", "uid-js")])
    group["status"] |= status
    if not condition:
        group["status"].pop("conditions")
    pods = [_pod(f"p{number}", "pg-js", node) for number, node in enumerate(nodes)]
    pods = [{**pod, "status": {"phase": phase}} for pod in pods]
    objects = Objects(jobsets=[_object("js")], pod_groups=[group], pods=pods)

    jobset, line, *reason = tree_lines(build(objects))

    want = want if condition else want.replace("Unschedulable", "Waiting")
    assert jobset == f"JobSet js: {want} pods scheduled"
    assert line.startswith(f"└─ PodGroup pg-js: {want} pods scheduled (minCount 2)")
    assert reason == ([f"      {LATE}"] if want.startswith("Unschedulable") else [])


def test_a_group_whose_pods_are_deleted_does_not_start() -> None:
    group = _group("g", 2)
    group["status"] |= {"scheduledPods": 0, "blocker": {"summary": LATE}}
    pods = [_pod(name, "g", "n1") for name in ("a", "b")]
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert build(Objects(pod_groups=[group], pods=pods))[0].state == "Waiting"


def test_a_group_that_starts_again_is_not_shown_as_waiting() -> None:
    group = _group("g", 2)
    group["status"] |= {"scheduledPods": 0, "blocker": {"summary": LATE}}
    pods = [_pod(name, "g", "n1") for name in ("a", "b")]

    assert tree_lines(build(Objects(pod_groups=[group], pods=pods))) == [
        "PodGroup g: Starting, 2 of 2 pods scheduled (minCount 2) on n1 x2"
    ]


@pytest.mark.parametrize(
    ("late", "bound", "want"),
    [
        pytest.param(("a", "b"), ("a", "b"), ("Starting", "Starting", "Starting"), id="both"),
        pytest.param(("b",), ("a", "b"), ("Starting", "Scheduled", "Starting"), id="one"),
        pytest.param((), ("a", "b"), ("Starting", "Scheduled", "Scheduled"), id="its own only"),
        pytest.param(
            ("a", "b"), ("a",), ("Starting", "Starting", "Unschedulable"), id="one is being bound"
        ),
        pytest.param(
            ("a", "b"), (), ("Unschedulable", "Unschedulable", "Unschedulable"), id="none starts"
        ),
        pytest.param(
            ("b",), ("a",), ("Unschedulable", "Scheduled", "Unschedulable"), id="too few children"
        ),
    ],
)
def test_so_are_the_conditions_of_a_tree(
    late: tuple[str, ...], bound: tuple[str, ...], want: tuple[str, ...]
) -> None:
    composite = _group("cpg", 2, reason=LATE, owners=[("JobSet", "uid-js")])
    composite["spec"] = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    composite["status"]["conditions"][0]["type"] = "CompositePodGroupInitiallyScheduled"
    groups = [
        _group(name, 1, parent="cpg", reason=LATE if name in late else "") for name in ("a", "b")
    ]
    pods = [_pod(f"of-{name}", name, "n1" if name in bound else "") for name in ("a", "b")]
    objects = Objects(jobsets=[_object("js")], composites=[composite], pod_groups=groups, pods=pods)

    (jobset,) = build(objects)

    (top,) = jobset.children
    assert (top.state, *(child.state for child in top.children)) == want
    assert jobset.state == want[0]
    assert top.reason == (LATE if want[0] == "Unschedulable" else "")


def test_so_it_is_in_the_snapshot_of_a_scheduler_that_binds() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("g", 2)
    pods = [builder.pod("g") for _ in range(2)]
    state = builder.state
    state.assume([state.pods[pod.uid] for pod in pods], [state.nodes.row_of["n0"]] * 2)

    assert tree_lines(branches(state, SearchBudget())) == [
        "PodGroup g: Starting, 2 of 2 pods scheduled (minCount 2) on n0 x2"
    ]


def test_a_group_that_ran_may_wait_again_in_a_snapshot() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("g", 1)
    builder.gang("runs", 1)
    builder.pod("runs", node="n0")
    pod = builder.pod("g", node="n0")
    builder.state.remove_pod(pod.uid)

    told = {it.name: (it.state, it.reason) for it in branches(builder.state, SearchBudget())}

    assert told["runs"] == ("Scheduled", "")
    assert told["g"][0] == "Waiting"
    assert told["g"][1].startswith("The group has 0 of 1 pods; its earlier pods are deleted")


def test_groups_that_pods_ask_for_are_below_what_their_pods_have_in_common() -> None:
    def asked(name: str) -> dict[str, Any]:
        made = _group(name, 1, metadata={"annotations": {ANNOTATION_MADE_FOR: f"/Pod/{name}/"}})
        owner = {"kind": "LeaderWorkerSet", "name": "serve", "uid": "u", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
        return made

    part = pod_group_of_value("serve", "index", "0")
    member = _pod("a", "serve", "n1")
    member["metadata"]["labels"]["index"] = "0"
    member["metadata"]["annotations"] = {ANNOTATION_GROUP_BY: "index"}
    objects = Objects(pod_groups=[asked(part), asked("z")], pods=[member, _pod("b", "z")])

    assert tree_lines(build(objects)) == [
        "LeaderWorkerSet serve: Scheduled, 1 of 2 pods scheduled",
        f"├─ PodGroup {part}: Scheduled, 1 of 1 pods scheduled (minCount 1) on n1 x1",
        "└─ PodGroup z: Scheduled, 0 of 1 pods scheduled (minCount 1)",
    ]


def test_a_group_is_below_its_deployment_and_a_users_own_kind_of_group_is_none() -> None:
    def owned(name: str, api_version: str, kind: str) -> dict[str, Any]:
        note = f"{api_version.partition('/')[0]}/{kind}/web/u"
        made = _group(name, 1, metadata={"annotations": {ANNOTATION_MADE_FOR: note}})
        owner = {"apiVersion": api_version, "kind": kind, "name": "web", "controller": True}
        made["metadata"]["ownerReferences"] = [owner | {"uid": "u"}]
        return made

    objects = Objects(
        pod_groups=[
            owned("pg-deployment-web-1", "apps/v1", "Deployment"),
            owned("implicit", "scheduling.muster.dev/v1alpha3", "Workload"),
            owned("plugins", "scheduling.x-k8s.io/v1alpha1", "PodGroup"),
        ]
    )

    assert tree_lines(build(objects)) == [
        "PodGroup implicit: Scheduled, 0 of 0 pods scheduled (minCount 1)",
        "PodGroup plugins: Scheduled, 0 of 0 pods scheduled (minCount 1)",
        "Deployment web: Scheduled, 0 of 0 pods scheduled",
        "└─ PodGroup pg-deployment-web-1: Scheduled, 0 of 0 pods scheduled (minCount 1)",
    ]


def test_a_tree_of_several_owners_is_shown_once() -> None:
    jobs = [_object(name, metadata={"annotations": {}}) for name in ("a", "b")]
    owners = [("Job", "uid-a"), ("Job", "uid-b")]
    root = _group("tree-t", 2, owners=owners, metadata={"annotations": {ANNOTATION_ROOT_OF: "t=2"}})
    root["spec"]["schedulingPolicy"]["gang"] = {"minGroupCount": 2}
    groups = [
        _group(f"pg-job-{it}", 1, parent="tree-t", owners=[("Job", f"uid-{it}")]) for it in "ab"
    ]
    found = build(Objects(jobs=jobs, pod_groups=groups, composites=[root]))
    assert [line.partition(":")[0] for line in tree_lines(found)] == [
        "CompositePodGroup tree-t",
        "├─ PodGroup pg-job-a",
        "└─ PodGroup pg-job-b",
    ]


def test_a_jobset_is_below_its_train_job() -> None:
    jobset = _object("tune")
    owner = {"kind": "TrainJob", "name": "tune", "uid": "t", "controller": True}
    jobset["metadata"]["ownerReferences"] = [{"kind": "Thing", "name": "x", "uid": "y"}, owner]
    objects = Objects(
        jobsets=[jobset],
        pod_groups=[_group("pg-tune", 2, owners=[("JobSet", "uid-tune")])],
        pods=[_pod("a", "pg-tune", "n1"), _pod("b", "pg-tune", "n1")],
    )

    assert tree_lines(build(objects)) == [
        "TrainJob tune: Scheduled, 2 of 2 pods scheduled",
        "└─ JobSet tune: Scheduled, 2 of 2 pods scheduled",
        "   └─ PodGroup pg-tune: Scheduled, 2 of 2 pods scheduled (minCount 2) on n1 x2",
    ]


def test_the_groups_of_each_kind_with_one_pod_template_are_below_it() -> None:
    kinds = ("StatefulSet", "LeaderWorkerSet", "MPIJob", "RayCluster", "SparkApplication")
    groups = []
    for kind in kinds:
        name = f"g-{kind.lower()}"
        made = _group(name, 1, metadata={"annotations": {ANNOTATION_MADE_FOR: f"/Pod/{name}/"}})
        owner = {"apiVersion": "x.example/v1", "kind": kind, "name": kind.lower(), "uid": kind}
        made["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        groups.append(made)

    found = build(Objects(pod_groups=groups))

    assert {(it.kind, it.children[0].name) for it in found} == {
        (kind, f"g-{kind.lower()}") for kind in kinds
    }
