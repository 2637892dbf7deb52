"""6012-010: the annotation `tree`, what admission rejects, and the objects of a tree."""

from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_NOT_NATIVE,
    ANNOTATION_TREE,
    COMPOSITE_POD_GROUP,
    MAX_TREE_OWNERS,
)
from api.features import Feature
from api.integration.common.native import GroupsApi, NativeApi
from api.integration.common.owner_kind import Review
from api.integration.common.trees import (
    Shared,
    Tree,
    in_tree,
    read_tree,
    root_object,
    shared_below,
    tree_workload,
)
from api.integration.job.admission import job_groups
from api.integration.jobset.admission import jobset_groups
from api.integration.kinds import OWNER_KINDS
from api.integration.lws.admission import lws_groups
from api.integration.unread_keys import unread_keys
from api.ownership import Owner
from api.rules.validation import validate
from api.scheduler_names import USUAL
from tests.support.apps import deployment, stateful_set
from tests.support.builders import make_pod
from tests.support.lws import make_lws
from tests.support.owners import job_template, make_job, make_jobset
from tests.support.parts import mpi_job, ray_cluster

Json = dict[str, Any]

PATH = f"metadata.annotations[{ANNOTATION_TREE}]"
LONG = ".".join(["a" * 49] * 5)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("serve=2", Tree("serve", 2)),
        (f"a.b-1={MAX_TREE_OWNERS}", Tree("a.b-1", MAX_TREE_OWNERS)),
        (f"{LONG}=1", Tree(LONG, 1)),
        (f"a{LONG}aaaa=1", None),
        (f"serve={MAX_TREE_OWNERS + 1}", None),
        *((it, None) for it in ("", "serve", "=2", "serve=", "serve=0", "serve=-1", "serve=02")),
        *((it, None) for it in ("serve=2.5", "serve=٢", "Serve=2", "a/b=2", "a_b=2", "serve==2")),
        *((it, None) for it in (" serve=2", "serve=2\n", "serve=" + "9" * 5000, None, 2, ["a=2"])),
    ],
)
def test_the_annotation_is_name_and_minimum(value: Any, want: Tree | None) -> None:
    assert read_tree(value) == want
    assert want is None or read_tree(want.text()) == want


def noted(words: dict[str, Any]) -> Json:
    return {key.replace("_", "-"): value for key, value in words.items()}


def kinds(**words: Any) -> list[Json]:
    """Return one object of each kind that can be in a tree."""
    return [
        stateful_set(**words),
        deployment(**words),
        ray_cluster(asks=noted(words)),
        mpi_job(asks=noted(words)),
        make_lws("l").replicas(2, 2).asks(**words).build(),
        make_job("j").pods(2).asks(**words).build() | {"kind": "Job"},
        make_jobset("s").asks(**words).replicated_job("w", 2).build() | {"kind": "JobSet"},
    ]


ASKS: dict[str, Any] = {"gang_mode": "Gang", "tree": "serve=2"}


def faults(obj: Json, old: Json | None = None) -> list[tuple[str, str]]:
    review = Review("CREATE" if old is None else "UPDATE", old, uid="u", namespace="default")
    return [(it.field, it.message) for it in OWNER_KINDS[obj["kind"]].admit(obj, review).causes]


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        pytest.param({"tree": "serve"}, "tree", "must be NAME=MINIMUM", id="another form"),
        pytest.param({"gang_mode": ""}, "tree", "set gang-mode here", id="no gang-mode"),
        pytest.param({"gang_mode": "Off"}, "tree", "set gang-mode here", id="gang-mode Off"),
        pytest.param({"eviction_cost": "1"}, "eviction-cost", "only the root of a tree", id="cost"),
        pytest.param({"movable": "true"}, "movable", "only the root of a tree", id="movable"),
        pytest.param({"min_run_time": "1h"}, "min-run-time", "only the root of a tree", id="run"),
        pytest.param({"start_timeout": "1h"}, "start-timeout", "only the root", id="start"),
        pytest.param(
            {"preemption_delay": "1m"}, "preemption-delay", "only the root of a tree", id="delay"
        ),
    ],
)
def test_admission_rejects(words: dict[str, str], path: str, message: str) -> None:
    for obj in kinds(**{key: value for key, value in (ASKS | words).items() if value}):
        found = faults(obj)
        said = [(field, text) for field, text in found if message in text]
        assert [field for field, _ in said] == [
            f"metadata.annotations[scheduling.muster.dev/{path}]"
        ], (
            obj["kind"],
            found,
        )


def test_admission_accepts_a_tree_of_each_kind() -> None:
    for obj in kinds(**ASKS):
        assert faults(obj) == [], obj["kind"]
        found = OWNER_KINDS[obj["kind"]].uses(admit(obj), USUAL)
        assert (Feature.COMPOSITE_POD_GROUP, PATH) in list(found)


def admit(obj: Json, native: NativeApi | None = None) -> Json:
    """Return the object after mutation."""
    review = Review("CREATE", uid="u", namespace="default", native=native or NativeApi())
    patch = OWNER_KINDS[obj["kind"]].admit(obj, review).patch
    made: Json = jsonpatch.apply_patch(obj, patch)
    return made


@pytest.mark.parametrize("now", ["serve=3", "other=2", ""])
def test_the_annotation_is_immutable(now: str) -> None:
    for obj in kinds(**ASKS):
        old = admit(obj)
        new = admit(obj)
        del new["metadata"]["annotations"][ANNOTATION_TREE]
        if now:
            new["metadata"]["annotations"][ANNOTATION_TREE] = now
        assert [field for field, _ in faults(new, old)] == [PATH], obj["kind"]


def test_a_tree_cannot_be_joined_later() -> None:
    for obj in kinds(gang_mode="Gang"):
        new = admit(obj)
        new["metadata"]["annotations"][ANNOTATION_TREE] = "serve=2"
        assert [field for field, _ in faults(new, admit(obj))] == [PATH], obj["kind"]


def test_an_app_leaves_and_joins_with_its_gang_mode() -> None:
    old, plain = admit(deployment(**ASKS)), deployment()
    assert faults(plain, old) == []
    assert faults(deployment(**ASKS), plain) == []


def test_a_replicated_job_is_not_an_owner() -> None:
    template = job_template().pods(2).asks(gang_mode="Gang", tree="serve=2")
    made = make_jobset("s").replicated_job("w", 2, template).build() | {"kind": "JobSet"}
    (fault,) = faults(made)
    assert fault[0] == f"spec.replicatedJobs[0].template.{PATH}"
    assert "on the JobSet" in fault[1]


def test_the_groups_are_never_native() -> None:
    native = NativeApi(GroupsApi.AUTO, served=True, kept=frozenset({"preemptionPolicy"}))
    for obj in kinds(**ASKS):
        noted = admit(obj, native)["metadata"]["annotations"][ANNOTATION_NOT_NATIVE]
        # LeaderWorkerSets never have native groups.
        assert "a tree of several owners" in noted or obj["kind"] == "LeaderWorkerSet"


def test_the_annotation_has_no_effect_elsewhere() -> None:
    pod = make_pod("p").build()
    pod["metadata"].setdefault("annotations", {})[ANNOTATION_TREE] = "serve=2"
    assert [it.path for it in unread_keys("Pod", pod)] == [PATH]
    root = root_object("ns", Shared(Tree("serve", 2), ""), [])
    assert list(unread_keys("CompositePodGroup", root)) == []


@pytest.mark.parametrize("named", ["", "high"])
def test_the_objects_obey_the_rules(named: str) -> None:
    shared = Shared(Tree("serve", 2), named)
    root = root_object("ns", shared, [])
    workload = tree_workload(Owner(COMPOSITE_POD_GROUP, "ns", "tree-serve", "u"), shared)
    for obj in (root, workload):
        assert validate(obj["kind"], obj, None, "CREATE").causes == []
    assert root["spec"].get("priorityClassName", "") == named


class Meta:
    def __init__(self, obj: Json) -> None:
        self.labels, self.annotations = obj["metadata"]["labels"], obj["metadata"]["annotations"]


@pytest.mark.parametrize("shared", [Shared(Tree("a.b", 7), ""), Shared(Tree("a", 1), "x.y")])
def test_a_root_states_what_its_owners_share(shared: Shared) -> None:
    root = root_object("ns", shared, [])
    assert shared_below(Meta(root)) == shared
    del root["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    assert shared_below(Meta(root)) is None, "a user may write the annotation"


def test_each_level_has_its_templates() -> None:
    ready = make_lws("l").replicas(2, 4).leader_ready().asks(gang_mode="Composite").build()
    stages = make_jobset("s").asks(gang_mode="Composite").replicated_job("w", 2)
    stages = stages.replicated_job("x", 1, job_template().asks(gang_mode="Basic"))
    found = {
        "Job": job_groups(admit(make_job("j").asks(gang_mode="Basic").build() | {"kind": "Job"})),
        "LeaderWorkerSet": lws_groups(admit(ready)),
        "JobSet": jobset_groups(admit(stages.build() | {"kind": "JobSet"})),
    }
    named = {
        kind: [
            (it["spec"]["workloadRef"]["templateName"], it["spec"]["parentCompositePodGroupName"])
            for it in in_tree(groups[1:], "tree-serve")
        ]
        for kind, groups in found.items()
    }
    assert named["Job"] == [("owner-basic", "tree-serve")]
    assert {template for template, _ in named["LeaderWorkerSet"]} == {
        "owner-groups",
        "part-groups",
        "piece-gang",
    }
    assert [template for template, _ in named["JobSet"]] == [
        *("owner-groups", "part-groups", "part-groups"),
        *("piece-gang", "piece-gang", "piece-basic"),
    ]
    assert [above for _, above in named["JobSet"]].count("tree-serve") == 1
