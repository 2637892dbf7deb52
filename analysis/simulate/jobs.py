"""Additions of the controllers of Jobs and JobSets, and JobSet's webhook, to pods (JobSet v0.11.0).

These are labels, which affinity and spreading may select, and JobSet's exclusive placement. Pod
affinity stands for the node selector that its webhook sets on the pods after the first one.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from analysis.simulate.exclusive_placement import keep_apart
from api.constants import (
    JOB,
    JOB_LABEL_UID,
    JOBSET_LABEL_JOB_INDEX,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    POD,
)
from api.integration.jobset.exclusive_topology import ANNOTATION_EXCLUSIVE, ANNOTATION_NODE_SELECTOR
from api.reading import annotations_of, count, labels_of, listing, mapping, text

Json = dict[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
PRIORITY: Final = "jobset.sigs.k8s.io/priority"
NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE: Final = "alpha.jobset.sigs.k8s.io/no-schedule"

_EVERYWHERE: Final[Mapping[str, Any]] = {"namespaceSelector": {}}


def _jobs_before(jobset: Json, replicated: Json) -> int:
    """Return how many Jobs the replicatedJobs before this one have."""
    jobs = 0
    for each in listing(mapping(jobset.get("spec")).get("replicatedJobs")):
        if mapping(each).get("name") == replicated["name"]:
            break
        jobs += count(mapping(each).get("replicas"), 1)
    return jobs


def job_of_jobset(jobset: Json, replicated: Json, index: int) -> Json:
    """Return the Job of this index as the JobSet controller creates it."""
    above, namespace = jobset["metadata"], jobset["metadata"]["namespace"]
    template: Json = copy.deepcopy(replicated["template"])
    name = f"{above['name']}-{replicated['name']}-{index}"
    # The hash of JobSet's own controller: selectors must match the pods on the cluster.
    key = hashlib.sha1(f"{namespace}/{name}".encode()).hexdigest()  # noqa: S324
    labels = {
        JOBSET_LABEL_NAME: above["name"],
        JOBSET_LABEL_UID: above["uid"],
        JOBSET_LABEL_REPLICATED_JOB: replicated["name"],
        JOBSET_LABEL_JOB_INDEX: str(index),
        GLOBAL_INDEX: str(_jobs_before(jobset, replicated) + index),
        JOB_KEY: key,
    }
    notes = labels | _exclusive(jobset) | _exclusive(template)
    spec = template.setdefault("spec", {})
    spec.setdefault("completionMode", "Indexed")
    for holder in (template, spec.setdefault("template", {})):
        meta = holder.setdefault("metadata", {})
        meta["labels"] = {**labels_of(holder), **labels}
        meta["annotations"] = {**annotations_of(holder), **notes}
    template["metadata"] |= {"name": name, "namespace": namespace, "uid": f"simulated-{key}"}
    if {ANNOTATION_EXCLUSIVE, ANNOTATION_NODE_SELECTOR} <= annotations_of(template).keys():
        _select_nodes(spec["template"].setdefault("spec", {}), f"{namespace}_{name}")
    return {"apiVersion": "batch/v1", "kind": JOB.kind} | template


def _exclusive(holder: Json) -> Json:
    """Return a level's annotations of exclusive placement, which count only with the topology."""
    said = annotations_of(holder)
    if ANNOTATION_EXCLUSIVE not in said:
        return {}
    return {
        key: said[key] for key in (ANNOTATION_EXCLUSIVE, ANNOTATION_NODE_SELECTOR) if key in said
    }


def _select_nodes(spec: Json, job: str) -> None:
    """Require the nodes that administrators labelled and tainted for the Job."""
    spec["nodeSelector"] = {**mapping(spec.get("nodeSelector")), NAMESPACED_JOB: job}
    toleration = {"key": NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
    spec["tolerations"] = [*listing(spec.get("tolerations")), toleration]


def pod_of_job(job: Json, index: int) -> Json:
    """Return the pod of this index as the Job controller creates it."""
    pod: Json = copy.deepcopy(job["spec"]["template"])
    above = job["metadata"]
    name, uid = above["name"], above["uid"]
    meta = pod.setdefault("metadata", {})
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    labels |= {JOB_LABEL_UID: uid, "controller-uid": uid}
    indexed = {INDEX: str(index)} if job["spec"].get("completionMode") == "Indexed" else {}
    meta["labels"] = {**labels_of(pod), **labels, **indexed}
    meta["annotations"] = {**annotations_of(pod), **indexed}
    meta |= {"name": f"{name}-{index}", "namespace": above["namespace"]}
    return {"apiVersion": "v1", "kind": POD.kind} | pod


def place(pod: Json) -> None:
    """Apply exclusive placement to a stored pod, as JobSet's webhook does, by priority."""
    notes = annotations_of(pod)
    # With the node selector strategy the pods have their selector already, and no affinity.
    if JOBSET_LABEL_NAME not in notes or ANNOTATION_NODE_SELECTOR in notes:
        return
    pod["metadata"]["labels"] = {**labels_of(pod), PRIORITY: str(pod["spec"].get("priority", 0))}
    topology = text(notes.get(ANNOTATION_EXCLUSIVE))
    if topology:
        leads = notes.get(INDEX) == "0"
        keep_apart(pod, topology, JOB_KEY, leads=leads, among=PRIORITY, scope=_EVERYWHERE)
