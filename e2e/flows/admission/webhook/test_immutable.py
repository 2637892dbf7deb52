"""Immutability applies to every kind of update, and no other update is rejected."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.flows.admission.webhook.conftest import NAMESPACE
from e2e.flows.admission.webhook.load import GROUP
from e2e.flows.admission.webhook.replicas import Replicas
from e2e.harness.support.rest import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Answer, Object, Rest
from tools.testing.effort import selected

WAYS = ("merge patch", "JSON patch", "replace", "server-side apply")

REFERENCE = {"workloadName": "w", "templateName": "t"}
LEAF = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 4}}}
KINDS: dict[str, tuple[str, Object, tuple[str, ...]]] = {
    # plural: kind, spec, the path of a minimum in it
    "workloads": (
        "Workload",
        {"podGroupTemplates": [LEAF]},
        ("podGroupTemplates", "0", "schedulingPolicy", "gang", "minCount"),
    ),
    "podgroups": (
        "PodGroup",
        {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minCount": 4}}},
        ("schedulingPolicy", "gang", "minCount"),
    ),
    "compositepodgroups": (
        "CompositePodGroup",
        {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
        ("schedulingPolicy", "gang", "minGroupCount"),
    ),
}
# Immutable fields by kind: a change of the spec, and the field that the error names.
CHANGES: dict[str, tuple[Object, str]] = {
    "workloads": (
        {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "later"}},
        "spec.controllerRef",
    ),
    "podgroups": ({"priorityClassName": "system-node-critical"}, "spec.priorityClassName"),
    "compositepodgroups": ({"disruptionMode": {"all": {}}}, "spec.disruptionMode"),
}


@pytest.fixture(scope="module")
def replicas(admin: Path) -> Iterator[Replicas]:
    running = Replicas(admin)
    with asyncio.Runner() as runner:
        runner.run(running.__aenter__())
        try:
            runner.run(running.start())
            yield running
        finally:
            runner.run(running.__aexit__(None, None, None))


class Subject:
    """One object, and the ways to change it."""

    def __init__(self, api: Rest, plural: str, made: Object) -> None:
        self.api = api
        self.made = made
        self.plural = plural
        name = made["metadata"]["name"]
        self.path = f"{GROUP}/v1alpha3/namespaces/{NAMESPACE}/{plural}/{name}"

    async def change(self, way: str, spec: Object) -> Answer:
        """Set fields of the spec in one of the ways of clients."""
        obj = copy.deepcopy((await self.api.get(self.path)).ok())
        obj["spec"] |= spec
        match way:
            case "merge patch":
                return await self.api.patch(self.path, {"spec": spec}, MERGE_PATCH)
            case "JSON patch":
                ops = [
                    {"op": "add", "path": f"/spec/{key}", "value": value}
                    for key, value in spec.items()
                ]
                return await self.api.patch(self.path, ops, JSON_PATCH)
            case "replace":
                return await self.api.put(self.path, obj)
            case "server-side apply":
                return await self._apply(obj)
            case "merge patch of the status":
                return await self.api.patch(f"{self.path}/status", {"spec": spec}, MERGE_PATCH)
            case "replace of the status":
                return await self.api.put(f"{self.path}/status", obj)
        raise ValueError(way)

    async def _apply(self, obj: Object) -> Answer:
        applied = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {"name": obj["metadata"]["name"], "namespace": NAMESPACE},
            "spec": obj["spec"],
        }
        params = {"fieldManager": "someone", "force": "true"}
        return await self.api.patch(self.path, applied, APPLY_PATCH, params=params)

    async def spec(self) -> Any:
        return (await self.api.get(self.path)).ok()["spec"]


@pytest.fixture(params=KINDS)
async def subject(
    replicas: Replicas, api: Rest, request: pytest.FixtureRequest
) -> AsyncIterator[Subject]:
    kind, spec, _ = KINDS[request.param]
    obj = {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": kind,
        "metadata": {"name": "fixed", "namespace": NAMESPACE},
        "spec": spec,
    }
    collection = f"{GROUP}/v1alpha3/namespaces/{NAMESPACE}/{request.param}"
    subject = Subject(api, request.param, (await api.post(collection, obj)).expect(201))
    yield subject
    await api.patch(subject.path, {"metadata": {"finalizers": None}})
    await api.delete(subject.path)


@pytest.mark.parametrize("way", WAYS)
async def test_no_kind_of_update_bypasses_immutability(subject: Subject, way: str) -> None:
    change, field = CHANGES[subject.plural]
    before = await subject.spec()

    answer = await subject.change(way, change)

    status = answer.expect(422)
    assert (field, "FieldValueInvalid") in {
        (cause["field"], cause["reason"]) for cause in status["details"]["causes"]
    }
    assert "field is immutable" in status["message"]
    assert await subject.spec() == before


@pytest.mark.parametrize("way", ["merge patch of the status", "replace of the status"])
async def test_the_status_sub_resource_leaves_the_spec_alone(subject: Subject, way: str) -> None:
    if subject.plural == "workloads":
        pytest.skip("a Workload has no status")
    change, _ = CHANGES[subject.plural]
    before = await subject.spec()

    (await subject.change(way, change)).ok()

    assert await subject.spec() == before


async def test_an_older_version_bypasses_no_rule(subject: Subject) -> None:
    if subject.plural == "compositepodgroups":
        pytest.skip("it has one version")
    before = await subject.spec()
    path = subject.path.replace("v1alpha3", "v1alpha2")
    change: Object = {"spec": {"podGroupTemplateName": "another"}}
    if subject.plural == "workloads":
        change = {"spec": {"podGroupTemplates": None}}

    answer = await subject.api.patch(path, change, MERGE_PATCH)

    assert answer.status == 422, answer.text
    assert await subject.spec() == before


@pytest.mark.parametrize("way", selected({it: it for it in WAYS}, {"merge patch"}))
async def test_minimums_may_change_in_every_way(subject: Subject, way: str) -> None:
    _, _, minimum = KINDS[subject.plural]
    spec = copy.deepcopy(await subject.spec())
    place = spec
    for step in minimum[:-1]:
        place = place[int(step)] if step.isdigit() else place[step]
    place[minimum[-1]] = 3

    answer = await subject.change(way, {minimum[0]: spec[minimum[0]]})

    assert answer.ok()["spec"] == spec


async def test_an_update_that_leaves_the_spec_alone_is_never_refused(
    subject: Subject, replicas: Replicas
) -> None:
    """Also while the webhook is down, so that finalizers can always be removed."""
    replicas.processes[0].kill()
    try:
        labelled = await subject.api.patch(subject.path, {"metadata": {"labels": {"a": "b"}}})
        whole = (await subject.api.get(subject.path)).ok()
        whole["metadata"].pop("finalizers", None)
        freed = await subject.api.put(subject.path, whole)
    finally:
        replicas.processes[0].start()
        await replicas.ready(0)

    assert labelled.status == freed.status == 200, (labelled.text, freed.text)
    assert "finalizers" not in freed.body["metadata"]
