"""Controllers of disabled features do not run, and nothing is created that uses such a feature."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api.constants import ANNOTATION_WAITING_FOR
from api.features import USUAL, Feature, FeatureGates
from controllers.app import LeaderTerm
from controllers.cache.informers import Caches
from kube.events.events import Recorder
from kube.leader.election import Fence
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.clock import FakeClock
from tests.support.memory_api import MemoryApi
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]
TREE, TOPOLOGY = Feature.COMPOSITE_POD_GROUP, Feature.TOPOLOGY


@contextmanager
def harness(gates: FeatureGates) -> Iterator[ControllerHarness]:
    made = ControllerHarness(gates=gates)
    yield made
    made.close()


ALWAYS = {"protection", "orphans", "template-values", "trees", "groups-from-pods"}


def waiting_for(harness: ControllerHarness, kind: str, name: str) -> str:
    notes = harness.api.objects[kind, "default", name]["metadata"].get("annotations", {})
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


def tree() -> Json:
    return (
        make_jobset("a")
        .asks(gang_mode="Composite")
        .replicated_job("b", 2, job_template().pods(4))
        .build()
    )


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        (Feature.JOB, {"job"}),
        (Feature.JOBSET, {"jobset", "jobset-creator"}),
        (Feature.STATEFUL_SET, {"statefulset"}),
        (Feature.DEPLOYMENT, {"deployment"}),
        (Feature.LEADER_WORKER_SET, {"leaderworkerset"}),
        (Feature.RAY_CLUSTER, {"raycluster", "raycluster-creator"}),
        (Feature.MPI_JOB, {"mpijob"}),
        (Feature.COSCHEDULING, {"podgroup"}),
        (Feature.IMPLICIT_POD_GROUPS, {"implicit"}),
        (Feature.POD_GROUPS_FROM_PODS, set()),
        (Feature.DEVICE_CLAIMS, {"group-claims"}),
        (Feature.GANG, set()),
        (TREE, set()),
        (TOPOLOGY, set()),
        (Feature.PREEMPTION, set()),
    ],
)
def test_the_controllers_of_a_feature_that_is_off_do_not_run(
    feature: Feature, names: set[str]
) -> None:
    """Finalizers, orphans and template values are handled whatever is off.

    Existing groups from pods continue to follow these.
    """
    usual, without = running(USUAL), running(USUAL.without(feature))

    assert usual - without == names
    assert running(FeatureGates(frozenset())) >= ALWAYS


@pytest.mark.parametrize("feature", [Feature.WORKLOAD, Feature.POD_GROUP])
def test_no_controller_of_an_owner_runs_without_groups(feature: Feature) -> None:
    assert running(USUAL.without(feature)) == ALWAYS | {"group-claims", "provisioning"}


def running(gates: FeatureGates) -> set[str]:
    api, clock = MemoryApi(), FakeClock()
    fence, recorder = Fence(clock, 0, math.inf), Recorder(api, "muster-controller", clock)
    term = LeaderTerm(api, Caches(), recorder, clock, fence=fence, gates=gates)
    return {it.controller.name for it in term.reconcilers}


async def test_a_tree_of_a_stored_jobset_is_not_made_while_trees_are_off() -> None:
    """Neither its Workload nor a part of it exists: no gang of it may start without the others."""
    with harness(USUAL.without(TREE)) as off:
        off.submit_jobset(tree())

        await off.settle()

        assert off.api.writes == [("patch", "JobSet", "a")]
        assert waiting_for(off, "JobSet", "a").startswith(
            "FeatureGateOff: feature gate CompositePodGroup is off, which CompositePodGroup cpg-a"
        )
        assert ("JobSet", "a", "FeatureGateOff") in off.recorded.events


async def test_a_job_with_a_topology_is_told_that_it_waits_for_the_gate() -> None:
    with harness(USUAL.without(TOPOLOGY)) as off:
        off.submit_job(make_job("t").asks(gang_mode="Gang", topology="rack").pods(2).build())

        await off.settle()

        assert not [kind for verb, kind, _ in off.api.writes if verb == "create"]
        assert "feature gate TopologyAwareWorkloadScheduling is off" in waiting_for(off, "Job", "t")


async def test_what_was_made_while_it_was_on_is_kept_up_to_date_and_goes_with_its_owner() -> None:
    with harness(USUAL) as on:
        on.submit_jobset(tree())
        await on.settle()
        stored = dict(on.api.objects)
    assert len([it for it in stored if it[0] == "PodGroup"]) == 2
    with harness(USUAL.without(TREE)) as off:
        for obj in stored.values():
            off.api.put(obj)
        await off.settle()

        assert {it[:3] for it in off.api.objects} == set(stored)
        assert waiting_for(off, "JobSet", "a") == ""

        off.change("JobSet", "a", suspend=True)
        await off.settle()

        assert not [it for it in off.api.objects if "PodGroup" in it[0]]


async def test_when_it_is_on_again_the_rest_is_made() -> None:
    with harness(USUAL.without(TREE)) as off:
        off.submit_jobset(tree())
        await off.settle()
        stored = dict(off.api.objects)
    with harness(USUAL) as on:
        for obj in stored.values():
            on.api.put(obj)

        await on.settle()

        made = [kind for verb, kind, _ in on.api.writes if verb == "create"]
        assert made == ["Workload", *["CompositePodGroup"] * 2, *["PodGroup"] * 2]
        assert waiting_for(on, "JobSet", "a") == ""


async def test_an_implicit_group_with_a_topology_is_not_made_and_its_workload_told() -> None:
    with harness(USUAL.without(TOPOLOGY)) as off:
        template = {
            "name": "t",
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        }
        meta = {"name": "w", "namespace": "default", "uid": "uid-w"}
        spec = {"podGroupTemplates": [template]}
        off.api.put({"kind": "Workload", "metadata": meta, "spec": spec})
        pod = make_pod("p").build()
        pod["metadata"]["labels"] = {
            "scheduling.muster.dev/workload": "w",
            "scheduling.muster.dev/template": "t",
        }
        off.api.put(pod | {"kind": "Pod"})

        await off.settle()

        assert off.api.writes == []
        assert off.recorded.events == [("Workload", "w", "FeatureGateOff")]
