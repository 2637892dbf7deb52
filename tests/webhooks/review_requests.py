"""Reviews as an API server sends them, and responses decoded as by an API server."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from api import features
from api.constants import KindName
from api.features import FeatureGates
from api.integration.common.native import MUSTER_ONLY, NativeApi
from api.integration.common.workloads import OwnerName
from api.membership import Owners, belongs
from api.priority import PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from kube.client.meta import Identity
from webhooks.cache.informers import GroupObject

POD = KindName("", "v1", "pods", "Pod")


@dataclass
class FakeLister:
    """A cluster with these PriorityClasses and objects, by (namespace, name).

    `deleting` are terminating composites; they need not be among `composites`. `deleting_groups`
    are terminating PodGroups, with their owners. `foreign_groups` are other projects' groups in
    namespace `team`, by (kind, name). `of_owners` are users' Workloads in it, by their
    controllerRef. `claims` are the templates of the claims of PodGroups, by entry.
    """

    classes: Sequence[PriorityClass] = ()
    deleting: set[tuple[str, str]] = field(default_factory=set)
    workloads: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    composites: dict[tuple[str, str], str] = field(default_factory=dict)
    deleting_groups: dict[tuple[str, str], Owners] = field(default_factory=dict)
    foreign_groups: set[tuple[str, str]] = field(default_factory=set)
    scheduler_names: SchedulerNames = USUAL
    of_owners: dict[OwnerName, dict[str, Any]] = field(default_factory=dict)
    gates: FeatureGates = features.USUAL
    claims: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    native: bool = False
    native_api: NativeApi = MUSTER_ONLY

    def priority_classes(self) -> Sequence[PriorityClass]:
        return self.classes

    def workload(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.workloads.get((namespace, name))

    def workload_of_user(self, namespace: str, owner: OwnerName) -> dict[str, Any] | None:
        return self.of_owners.get(owner) if namespace == "team" else None

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> dict[str, Any] | None:
        return self.workload_of_user(namespace, owner)

    def composite(self, namespace: str, name: str) -> GroupObject | None:
        key = (namespace, name)
        if key not in self.composites and key not in self.deleting:
            return None
        return GroupObject(Identity(), None, key in self.deleting, self.composites.get(key, ""), {})

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        owners = self.deleting_groups.get((namespace, name))
        return owners is not None and belongs(claims, owners)

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        return namespace == "team" and (kind, name) in self.foreign_groups

    def shared_claims(self, namespace: str, pod_group: str) -> dict[str, str]:
        return self.claims.get((namespace, pod_group), {})


def review_of(
    kind: KindName,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    *,
    operation: str = "",
    subresource: str = "",
    version: str = "",
    uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002",
) -> dict[str, Any]:
    """Return an AdmissionReview; without `operation`, CREATE or UPDATE depending on `old`.

    `version` is what the client wrote, if different from the kind's.
    """
    name = (new or old or {}).get("metadata", {})
    request: dict[str, Any] = {
        "uid": uid,
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "requestKind": {
            "group": kind.group,
            "version": version or kind.version,
            "kind": kind.kind,
        },
        "namespace": "team",
        "operation": operation or ("UPDATE" if old else "CREATE"),
        "userInfo": {"username": "someone", "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    if isinstance(name, dict) and isinstance(name.get("name"), str):
        request["name"] = name["name"]
    if subresource:
        request["subResource"] = subresource
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def encoded(review: dict[str, Any]) -> bytes:
    """Return the body that an API server posts."""
    return json.dumps(review).encode()


@dataclass(frozen=True)
class Read:
    """The response to one review."""

    allowed: bool
    code: int
    reason: str
    message: str
    causes: list[dict[str, str]]
    warnings: list[str]
    result: dict[str, Any] | None

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Return (field, reason) of each cause."""
        return [(cause["field"], cause["reason"]) for cause in self.causes]


def read(answer: bytes, review: dict[str, Any]) -> Read:
    """Check the envelope and apply the patch, if any, to the object of the review."""
    body = json.loads(answer)
    response = body["response"]
    assert body["apiVersion"] == "admission.k8s.io/v1"
    assert body["kind"] == "AdmissionReview"
    assert response["uid"] == review["request"]["uid"]
    status = response.get("status", {})
    result = review["request"]["object"]
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        result = jsonpatch.apply_patch(result, json.loads(base64.b64decode(response["patch"])))
    return Read(
        allowed=response["allowed"],
        code=status.get("code", 200),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        causes=status.get("details", {}).get("causes", []),
        warnings=response.get("warnings", []),
        result=result,
    )


def pod_group(name: str = "trainer", **spec: Any) -> dict[str, Any]:
    """Return a valid PodGroup of minCount 4; keywords replace spec fields, None removes one."""
    return _group("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": 4}}} | spec)


def composite(name: str = "trainers", **spec: Any) -> dict[str, Any]:
    """Return a valid CompositePodGroup; keywords replace spec fields, None removes one."""
    fields = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    }
    return _group("CompositePodGroup", name, fields | spec)


def pod(
    name: str = "worker-0", labels: Any = None, scheduler: str | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a pod with these labels; None omits a field."""
    metadata: dict[str, Any] = {"name": name, "namespace": "team"}
    if labels is not None:
        metadata["labels"] = labels
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _group(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
