"""6012-010: whatever its owners do and whatever fails, a tree never starts in part, and ends.

No group of an owner is ever outside of the tree, so the scheduler starts none before minGroupCount
owners can start. After the last owner nothing is left.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from api.constants import ANNOTATION_MADE_FOR, ANNOTATION_MANAGED_GROUP, ANNOTATION_TREE
from tests.controllers.life_cycle import GROUPS, LifeCycle
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.builders import make_pod
from tests.support.lws import make_lws
from tests.support.owners import make_job
from tools.testing.effort import count

Json = dict[str, Any]

KINDS = ("Deployment", "StatefulSet", "LeaderWorkerSet", "Job")
SCALED = KINDS[:-1]
NAMES = st.sampled_from(["prefill", "decode", "router"])
TREES = st.sampled_from(["serve=2", "serve=2", "serve=3", "other=1"])


def make(kind: str, name: str, tree: str) -> Json:
    asks: dict[str, Any] = {"gang_mode": "Gang", "tree": tree}
    if kind == "Job":
        return make_job(name).asks(**asks).pods(2).build() | {"kind": kind}
    if kind == "LeaderWorkerSet":
        return make_lws(name).replicas(2, 2).asks(**asks).build()
    made: Json = (deployment if kind == "Deployment" else stateful_set)(name, 2, **asks)
    return made


class TreeLives(LifeCycle):
    """Owners of two trees."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    @rule(kind=st.sampled_from(KINDS), name=NAMES, tree=TREES)
    def create(self, kind: str, name: str, tree: str) -> None:
        if (kind, "default", name) in self.harness.api.objects:
            return
        self.made += 1
        obj = make(kind, name, tree)
        obj["metadata"]["uid"] = f"{kind}-{name}-{self.made}"
        if kind == "Job":
            self.do(lambda: self.harness.submit_job(obj))
        elif kind == "LeaderWorkerSet":
            self.do(lambda: self.harness.submit_lws(obj))
        else:
            self.do(lambda: self.harness.api.put(admitted(obj, request_uid=str(self.made))))

    @rule(kind=st.sampled_from(KINDS), name=NAMES, how=st.sampled_from(["remove", "orphan"]))
    def delete(self, kind: str, name: str, how: str) -> None:
        if (kind, "default", name) in self.harness.api.objects:
            self.do(lambda: getattr(self.harness.api, how)(kind, "default", name))

    @rule(kind=st.sampled_from(SCALED), name=NAMES, replicas=st.sampled_from([0, 1, 3]))
    def scale(self, kind: str, name: str, replicas: int) -> None:
        if (kind, "default", name) in self.harness.api.objects:
            self.do(lambda: self.harness.change(kind, name, replicas=replicas))

    @rule(kind=st.sampled_from(KINDS[:2]), name=NAMES)
    def a_pod_starts(self, kind: str, name: str) -> None:
        owner = self.harness.api.objects.get((kind, "default", name))
        group = "" if owner is None else owner["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
        found = self.harness.api.objects.get(("PodGroup", "default", group))
        # Admission rejects a pod of a group that is being deleted.
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        self.made += 1
        pod = make_pod(f"p{self.made}").managed(group).bound_to("n").build()
        running = pod | {"kind": "Pod", "status": {"phase": "Running"}}
        self.do(lambda: self.harness.api.put(running))

    @rule()
    def a_pod_ends(self) -> None:
        for name in self.harness.api.names("Pod")[:1]:
            self.do(lambda name=name: self.harness.api.remove("Pod", "default", name))

    @precondition(lambda self: not self.harness.api.client.holds_events)
    @rule()
    def all_owners_that_agree_are_in_the_tree(self) -> None:
        self.settle()
        for name in ("serve", "other"):
            self._check_tree(name)

    @invariant()
    def no_group_is_outside_of_a_tree(self) -> None:
        for slot, obj in self.harness.api.objects.items():
            if slot[0] not in GROUPS or ANNOTATION_MADE_FOR not in obj["metadata"]["annotations"]:
                continue
            spec = obj["spec"]
            named = spec["workloadRef"]["workloadName"]
            assert named in ("tree-serve", "tree-other")
            parent = spec["parentCompositePodGroupName"]
            assert parent == named or parent.startswith("cpg-lws-"), slot

    @invariant()
    def the_minimum_is_that_of_the_annotation(self) -> None:
        for _, root in self._roots():
            minimum = root["spec"]["schedulingPolicy"]["gang"]["minGroupCount"]
            noted = root["metadata"]["annotations"]["scheduling.muster.dev/root-of"]
            assert noted.endswith(f"={minimum}")

    def _roots(self) -> list[tuple[str, Json]]:
        found = self.harness.api.objects
        roots = ("tree-serve", "tree-other")
        slots = [("CompositePodGroup", "default", name) for name in roots]
        return [(slot[2], found[slot]) for slot in slots if slot in found]

    def _check_tree(self, name: str) -> None:
        objects = self.harness.api.objects
        owners = [
            obj
            for slot, obj in objects.items()
            if slot[0] in KINDS and _tree(obj).partition("=")[0] == name and _has_pods(obj)
        ]
        root = dict(self._roots()).get(f"tree-{name}")
        if not owners:
            return
        assert root is not None
        # A user deleted it; it stays as long as groups are below.
        if "deletionTimestamp" in root["metadata"]:
            return
        noted = root["metadata"]["annotations"]["scheduling.muster.dev/root-of"]
        uids = {it["uid"] for it in root["metadata"].get("ownerReferences", [])}
        for obj in owners:
            listed = obj["metadata"]["uid"] in uids
            assert listed == (_tree(obj) == noted), (obj["kind"], obj["metadata"]["name"])
        assert ("Workload", "default", f"tree-{name}") in objects

    def remove_all(self) -> None:
        for kind in (*KINDS, "Pod"):
            for name in self.harness.api.names(kind):
                self.harness.api.remove(kind, "default", name)


def _tree(obj: Json) -> str:
    return str(obj["metadata"]["annotations"][ANNOTATION_TREE])


def _has_pods(obj: Json) -> bool:
    return obj["spec"].get("replicas") != 0 and "deletionTimestamp" not in obj["metadata"]


@pytest.mark.timeout(1200)
def test_any_life_of_a_tree_ends_with_nothing_left() -> None:
    machine = settings(
        max_examples=count(30, 200),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run = TreeLives.TestCase
    run.settings = machine
    run("runTest").debug()
