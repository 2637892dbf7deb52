"""Owners of trees in tests, and what the controllers made of them."""

import copy
from typing import Any

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_WAITING_FOR,
)
from tests.controllers.conftest import ControllerHarness
from tests.support.apps import admitted, stateful_set
from tests.support.builders import make_pod

Json = dict[str, Any]

ROOT = ("CompositePodGroup", "default", "tree-serve")
WORKLOAD = ("Workload", "default", "tree-serve")
MADE = ("Workload", "CompositePodGroup", "PodGroup")


def put(harness: ControllerHarness, obj: Json, *, uid: str = "", namespace: str = "") -> str:
    """Store a StatefulSet or Deployment after admission; return the name of its group."""
    obj["metadata"] |= {"namespace": namespace or "default"}
    made = admitted(obj, request_uid=uid or obj["metadata"]["name"])
    harness.api.put(made)
    return str(made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])


def owner(name: str, tree: str = "serve=2", *, make: Any = stateful_set, **asks: str) -> Json:
    made: Json = make(name, gang_mode="Gang", tree=tree, **asks)
    return made


def of_class(obj: Json, name: str) -> Json:
    made = copy.deepcopy(obj)
    made["spec"]["template"]["spec"]["priorityClassName"] = name
    return made


def listed(harness: ControllerHarness) -> list[str]:
    found = harness.api.objects.get(ROOT, {"metadata": {}})
    return [it["name"] for it in found["metadata"].get("ownerReferences", [])]


def waiting_for(harness: ControllerHarness, kind: str, name: str) -> str:
    notes = harness.api.objects[kind, "default", name]["metadata"]["annotations"]
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


def events(harness: ControllerHarness, name: str) -> list[tuple[str, str]]:
    found = zip(harness.recorded.events, harness.recorded.messages, strict=True)
    return [(event[2], text) for event, text in found if event[1] == name]


def pods(harness: ControllerHarness, *names: str) -> None:
    """Start a pod of each StatefulSet."""
    for name in names:
        meta = harness.api.objects["StatefulSet", "default", name]["metadata"]
        pod = make_pod(f"{name}-0").managed(meta["annotations"][ANNOTATION_MANAGED_GROUP])
        made = pod.bound_to("n").build() | {"kind": "Pod", "status": {"phase": "Running"}}
        harness.api.put(made)
