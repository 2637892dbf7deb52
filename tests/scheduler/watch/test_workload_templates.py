"""Decoding of Workloads to the templates with which groups are compared."""

from typing import Any

import msgspec
import pytest

from analysis.simulate.dry_admission import apply
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission
from api.integration.jobset.groups import jobset_objects
from api.integration.jobset.view import read_jobset
from scheduler.core.groups.tree_validation import check
from scheduler.core.groups.workload_templates import GroupTemplate
from scheduler.core.state.state import State
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, Topology
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_group, decode_workload
from scheduler.watch.object_handlers import workload_handler
from scheduler.watch.workload_templates import templates_of
from tests.support.owners import job_template, make_jobset

META = {"name": "w", "namespace": "ns"}


def read(spec: dict[str, Any]) -> dict[tuple[str, str], GroupTemplate]:
    return templates_of(decode_workload(msgspec.json.encode({"metadata": META, "spec": spec})))


def nested(levels: int) -> dict[str, Any]:
    """Return nested composite templates, with one leaf template on the lowest level."""
    inner: dict[str, Any] = {"podGroupTemplates": [{"name": "leaf"}]}
    for level in reversed(range(1, levels)):
        inner = {"compositePodGroupTemplates": [{"name": f"c{level}", **inner}]}
    return inner


def test_a_template_keeps_what_groups_are_compared_with() -> None:
    leaf = {
        "name": "leaf",
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
        "priority": 7,
        "resourceClaims": [{"name": "gpu"}],
    }
    composite = {"name": "top", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [leaf]}

    assert read({"compositePodGroupTemplates": [composite]}) == {
        (COMPOSITE_POD_GROUP, "top"): GroupTemplate(gang=False),
        (POD_GROUP, "leaf"): GroupTemplate(
            "top", True, Topology("rack", preferred=True), "all", "high", 7
        ),
    }


def test_four_levels_are_read_and_no_more() -> None:
    deepest = {key[1]: template.below for key, template in read(nested(4)).items()}

    assert deepest == {"c1": "", "c2": "c1", "c3": "c2", "leaf": "c3"}
    assert (POD_GROUP, "leaf") not in read(nested(5))
    assert len(read(nested(20))) == 3


def test_a_workload_that_goes_is_forgotten() -> None:
    state, told = State(), []
    handler = workload_handler(state, lambda: told.append(1))
    workload = {"metadata": META, "spec": {"podGroupTemplates": [{"name": "t"}]}}
    handler.upsert(decode_workload(msgspec.json.encode(workload)))
    known = dict(state.forest.templates)
    handler.delete(("ns", "w"))

    assert list(known) == [("ns", "w")]
    assert state.forest.templates == {}
    assert len(told) == 2


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
def test_the_groups_made_for_a_jobset_are_like_their_templates(mode: str) -> None:
    job = job_template().pods(3).priority_class("high")
    asked = {"gang_mode": mode, "topology": "rack", "disruption_mode": "All"}
    jobset = make_jobset().asks(**asked).replicated_job("workers", 2, job).build()
    admitted = jobset_admission(jobset, Review("CREATE"))
    apply(jobset, admitted.causes, admitted.patch)
    state = State()
    handler = workload_handler(state, lambda: None)
    made = jobset_objects(read_jobset(jobset))
    for obj in made:
        raw = msgspec.json.encode(obj)
        if obj["kind"] == "Workload":
            handler.upsert(decode_workload(raw))
        else:
            state.set_group(decode.group_spec(obj["kind"], decode_group(raw)))
    groups = list(state.forest.groups.values())

    assert [obj["kind"] for obj in made].count("Workload") == 1
    assert len(groups) == len(made) - 1 > 0
    assert [check(group.top) for group in groups] == [None] * len(groups)
