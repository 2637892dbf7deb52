"""Builders of Jobs and JobSets, in the terms of the API; defaults are valid and minimal."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_MADE_FOR,
    GROUP,
    JOBSET_LABEL_JOB_INDEX,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    KindName,
)
from api.ownership import OwnerId

Json = dict[str, Any]


def made_for(kind: KindName, name: str, uid: str) -> Json:
    """Return the metadata of the objects that Muster creates for one of these."""
    return {
        "labels": {LABEL_MANAGED_BY: MANAGED_BY},
        "annotations": {
            ANNOTATION_MADE_FOR: OwnerId(kind.group, kind.kind, name, uid).annotation()
        },
    }


def annotation(word: str) -> str:
    """Return the annotation key: `gang-mode` -> `scheduling.muster.dev/gang-mode`."""
    return f"{GROUP}/{word}"


class OwnerBuilder:
    """The parts that owners of all kinds have."""

    _metadata: Json
    _spec: Json

    def asks(self, **words: str) -> Self:
        """Set annotations, written with underscores: `asks(gang_mode="Gang")`."""
        notes = self._metadata.setdefault("annotations", {})
        notes |= {annotation(word.replace("_", "-")): value for word, value in words.items()}
        return self

    def suspended(self, suspend: bool = True) -> Self:
        self._spec["suspend"] = suspend
        return self

    def managed_by(self, controller: str) -> Self:
        self._spec["managedBy"] = controller
        return self


class JobBuilder(OwnerBuilder):
    """A Job, or the Job template of a replicatedJob."""

    def __init__(self, metadata: Json) -> None:
        self._metadata = metadata
        self._pod: Json = {"containers": [{"name": "main", "image": "busybox"}]}
        self._pod_metadata: Json = {}
        self._spec: Json = {}

    def noted(self, notes: Mapping[str, str]) -> Self:
        """Set annotations with their full names."""
        self._metadata.setdefault("annotations", {}).update(notes)
        return self

    def pods(self, parallelism: int, completions: int | None = None) -> Self:
        self._spec["parallelism"] = parallelism
        if completions is not None:
            self._spec["completions"] = completions
        return self

    def priority_class(self, name: str) -> Self:
        self._pod["priorityClassName"] = name
        return self

    def preempting(self) -> Self:
        self._pod["preemptionPolicy"] = "PreemptLowerPriority"
        return self

    def scheduler(self, name: str) -> Self:
        self._pod["schedulerName"] = name
        return self

    def claims(self, **entries: str) -> Self:
        """Set entries of the pods' claims, each with its ResourceClaimTemplate."""
        return self.claim_entries(
            *({"name": it, "resourceClaimTemplateName": of} for it, of in entries.items())
        )

    def claim_entries(self, *entries: Json) -> Self:
        """Set entries of the pods' claims unchanged."""
        self._pod["resourceClaims"] = list(entries)
        return self

    def in_group(self, name: str) -> Self:
        return self.labelled({annotation("pod-group"): name})

    def labelled(self, labels: Mapping[str, str]) -> Self:
        """Set labels of the pods."""
        self._pod_metadata["labels"] = dict(labels)
        return self

    def managed(self, name: str) -> Self:
        """Set the fields that admission sets."""
        return self.asks(managed_group=name).in_group(name).scheduler("muster-scheduler")

    def of_jobset(self, jobset: str, replicated_job: str, index: int, scope: str = "") -> Self:
        self._metadata["labels"] = {
            JOBSET_LABEL_NAME: jobset,
            JOBSET_LABEL_REPLICATED_JOB: replicated_job,
            JOBSET_LABEL_JOB_INDEX: str(index),
        }
        if scope:
            self._metadata.setdefault("annotations", {})[ANNOTATION_GROUP_SCOPE] = scope
        return self

    def build(self) -> Json:
        template: Json = {"spec": self._pod}
        if self._pod_metadata:
            template["metadata"] = self._pod_metadata
        return deepcopy({"metadata": self._metadata, "spec": self._spec | {"template": template}})


class JobSetBuilder(OwnerBuilder):
    """A JobSet without replicatedJobs; add some."""

    def __init__(self, metadata: Json) -> None:
        self._metadata = metadata
        self._spec: Json = {"replicatedJobs": []}

    def field_mode(self, mode: str) -> Self:
        self._spec["gangConfig"] = {"gangMode": mode}
        return self

    def replicated_job(
        self,
        name: str,
        replicas: int = 1,
        template: JobBuilder | None = None,
        *,
        mode: str = "",
        depends_on: str = "",
    ) -> Self:
        """Add a replicatedJob; `mode` is the field form, the template has the annotation form."""
        job = (template or job_template()).build()
        if not job["metadata"]:
            del job["metadata"]
        entry: Json = {"name": name, "replicas": replicas, "template": job}
        if mode:
            entry["gangConfig"] = {"gangMode": mode}
        if depends_on:
            entry["dependsOn"] = [{"name": depends_on, "status": "Complete"}]
        self._spec["replicatedJobs"].append(entry)
        return self

    def in_order(self) -> Self:
        self._spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
        return self

    def build(self) -> Json:
        return deepcopy(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": self._metadata,
                "spec": self._spec,
            }
        )


def make_job(name: str = "train", *, generate_name: str = "") -> JobBuilder:
    """Return a builder of a Job of one pod in namespace `default`."""
    named = {"generateName": generate_name} if generate_name else {"name": name}
    return JobBuilder(named | {"namespace": "default", "uid": f"uid-of-{name}"})


def job_template() -> JobBuilder:
    """Return a builder of the Job template of a replicatedJob."""
    return JobBuilder({})


def make_jobset(name: str = "sample-jobset") -> JobSetBuilder:
    """Return a builder of a JobSet in namespace `default`."""
    return JobSetBuilder({"name": name, "namespace": "default", "uid": f"uid-of-{name}"})
