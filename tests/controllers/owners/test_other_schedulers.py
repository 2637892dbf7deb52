"""The pods that get groups: by each way to name one, and by their scheduler."""

from typing import Any

import msgspec
import pytest

from api.constants import (
    LABEL_COSCHEDULING,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)
from api.scheduler_names import SchedulerNames
from controllers.cache.decoding import decode_pod
from controllers.cache.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from kube.client.meta import Json
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod

NAMES = SchedulerNames(("packs", "spreads"))
GROUPS = ("PodGroup", "CompositePodGroup", "Workload")
PLUGINS = PLUGINS_POD_GROUPS.full_name


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness(NAMES)


def coscheduling(kind: str) -> Json:
    spec: Json = {"minMember": 2} if kind == PLUGINS else {"subsets": [{"minMember": 2}]}
    return {"kind": kind, "metadata": {"name": "g", "namespace": "default"}, "spec": spec}


def workload() -> Json:
    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"name": "w", "namespace": "default", "uid": "uid-of-w"}
    return {"kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": [template]}}


def pod(scheduler: str, labels: dict[str, str], fields: Json) -> Json:
    builder = make_pod("p").scheduler(scheduler)
    for key, value in labels.items():
        builder = builder.label(key, value)
    made = builder.build() | {"kind": "Pod", "status": {"phase": "Running"}}
    made["spec"] |= fields
    return made


PLUGINS_LABEL = {LABEL_COSCHEDULING: "g"}
TEMPLATE_LABELS = {LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"}
FIELD_OF_1_35 = {"workloadRef": {"name": "w", "podGroup": "t"}}


@pytest.mark.parametrize(
    ("owner", "labels", "fields", "group"),
    [
        pytest.param(
            coscheduling(PLUGINS), PLUGINS_LABEL, {}, "g", id="PodGroup of scheduler-plugins"
        ),
        pytest.param(
            coscheduling(COSCHEDULINGS.full_name), PLUGINS_LABEL, {}, "g", id="PodGroup of KEP-3370"
        ),
        pytest.param(workload(), {}, FIELD_OF_1_35, "w-t", id="the field of 1.35"),
        pytest.param(workload(), TEMPLATE_LABELS, {}, "w-t", id="Muster's own labels"),
    ],
)
@pytest.mark.parametrize(
    ("scheduler", "ours"),
    [
        pytest.param("packs", True, id="the first name"),
        pytest.param("spreads", True, id="another name"),
        pytest.param("muster-scheduler", False, id="the usual name is not configured"),
        pytest.param("default-scheduler", False, id="kube-scheduler"),
        pytest.param("volcano", False, id="a third scheduler"),
    ],
)
async def test_a_group_is_made_for_the_pods_of_our_schedulers_only(
    harness: ControllerHarness,
    owner: Json,
    labels: dict[str, str],
    fields: Json,
    group: str,
    scheduler: str,
    ours: bool,
) -> None:
    harness.api.put(owner)
    harness.api.put(pod(scheduler, labels, fields))
    await harness.settle()
    await harness.settle(seconds=60)

    assert harness.api.names(*GROUPS) == (
        sorted([group, *(["w"] if owner["kind"] == "Workload" else [])])
        if ours
        else (["w"] if owner["kind"] == "Workload" else [])
    )
    if owner["kind"] == PLUGINS:
        status = harness.api.objects[PLUGINS, "default", "g"].get("status")
        assert (status is not None) is ours


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("scheduler", ["packs", "default-scheduler"])
def test_the_field_of_1_36_counts_for_our_pods_only(scheduler: str, native: bool) -> None:
    """Where Kubernetes' own groups are served, it names one of these."""
    fields: Any = {"schedulingGroup": {"podGroupName": "f"}}

    found = decode_pod(msgspec.json.encode(pod(scheduler, {}, fields)), NAMES, native=native)

    ours = ("f",) if scheduler in NAMES else ()
    assert found.groups == (("f/scheduling.k8s.io",) if native else ours)


@pytest.mark.parametrize(
    ("status", "left_alone"),
    [
        pytest.param(None, False, id="nobody writes it"),
        pytest.param({"phase": "Pending"}, False, id="what both write"),
        pytest.param({"phase": "Running", "running": 1}, False, id="what Muster writes later"),
        pytest.param({"phase": "Scheduling"}, True, id="a phase that Muster does not write"),
        pytest.param({"phase": "PreScheduling"}, True, id="that of earlier versions"),
        pytest.param({"phase": "Pending", "occupiedBy": "a/b"}, True, id="a field of theirs"),
        pytest.param({"phase": "Running", "succeeded": 1}, True, id="a count of theirs"),
        pytest.param({"phase": "Running", "succeeded": 0}, False, id="a count of nothing"),
    ],
)
async def test_a_status_that_scheduler_plugins_writes_is_left_to_it(
    harness: ControllerHarness, status: Json | None, left_alone: bool
) -> None:
    """Its controller counts all pods with the label: two writers would never converge."""
    harness.api.put(coscheduling(PLUGINS) | ({"status": status} if status else {}))
    harness.api.put(pod("packs", PLUGINS_LABEL, {}))

    await harness.settle()
    await harness.settle(seconds=60)

    assert harness.api.names(*GROUPS) == ["g"]
    kept = harness.api.objects[PLUGINS, "default", "g"].get("status")
    wanted = {"phase": "Pending", "running": 1}
    assert kept == (status if left_alone else (status or {}) | wanted)
