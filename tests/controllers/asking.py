"""Pods that request groups, and the groups that they get."""

from typing import Any

from api.constants import (
    ANNOTATION_MIN_COUNT,
)
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import PodBuilder, make_pod

Json = dict[str, Any]
Owner = tuple[str, str, str]
"""API version, kind, name; the UID is `uid-NAME`."""

SET: Owner = ("apps/v1", "StatefulSet", "db")
MPI: Owner = ("kubeflow.org/v2beta1", "MPIJob", "mpi")
LAG = 6.0


def asking(name: str, group: str = "g", count: str = "4") -> PodBuilder:
    return make_pod(name).in_group(group).annotation(ANNOTATION_MIN_COUNT, count)


def owned(builder: PodBuilder, owner: Owner) -> PodBuilder:
    version, kind, name = owner
    return builder.owned_by(kind, name, f"uid-{name}", version)


def submit(harness: ControllerHarness, *builders: PodBuilder) -> None:
    for builder in builders:
        harness.api.put(builder.build() | {"kind": "Pod"})


def existing(harness: ControllerHarness, owner: Owner, above: Owner | None = None) -> None:
    version, kind, name = owner
    meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if above is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": above[0],
                "kind": above[1],
                "name": above[2],
                "uid": f"uid-{above[2]}",
                "controller": True,
            }
        ]
    harness.api.put({"apiVersion": version, "kind": kind, "metadata": meta})


def group(harness: ControllerHarness, name: str = "g") -> Json:
    found: Json = harness.api.objects["PodGroup", "default", name]
    return found


def owner_of(harness: ControllerHarness, name: str = "g") -> tuple[str, str] | None:
    found = group(harness, name)["metadata"].get("ownerReferences", [])
    return next(((it["kind"], it["uid"]) for it in found if it.get("controller")), None)


def minimum(harness: ControllerHarness, name: str = "g") -> int:
    found: int = group(harness, name)["spec"]["schedulingPolicy"]["gang"]["minCount"]
    return found
