"""The objects that a JobSet creates: its Jobs and its headless Service."""

import hashlib
from collections.abc import Iterable
from copy import deepcopy

from localcluster.controllers.base.api_protocol import JOBSETS
from localcluster.controllers.base.objects import Obj, annotations_of, controller_reference
from localcluster.controllers.jobsets import constants as words

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"


def job_name(jobset: Obj, replicated_job: str, index: int) -> str:
    """Return the name of one Job of a replicatedJob."""
    return f"{jobset['metadata']['name']}-{replicated_job}-{index}"


def subdomain(jobset: Obj) -> str:
    """Return the name of the headless Service, which is also the subdomain of the pods."""
    network = jobset["spec"].get("network") or {}
    return str(network.get("subdomain") or jobset["metadata"]["name"])


def has_hostnames(jobset: Obj) -> bool:
    """Return True if pods have DNS host names."""
    return bool((jobset["spec"].get("network") or {}).get("enableDNSHostnames"))


def restarts(jobset: Obj) -> int:
    """Return the number of restarts of the JobSet."""
    return int((jobset.get("status") or {}).get("restarts", 0))


def owner_reference(jobset: Obj) -> Obj:
    """Return the controller reference of all objects that a JobSet creates."""
    return controller_reference(jobset, api_version=JOBSETS.api_version, kind=JOBSETS.kind)


def new_job(jobset: Obj, replicated: Obj, index: int) -> Obj:
    """Return the Job of that index, suspended if the JobSet is."""
    template = deepcopy(replicated["template"])
    marks = _marks(jobset, replicated, index)
    job: Obj = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(jobset, replicated["name"], index),
            "namespace": jobset["metadata"]["namespace"],
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": template.get("spec") or {},
    }
    exclusive = _exclusive_placement(jobset, replicated)
    pod_template = job["spec"].setdefault("template", {})
    pod_template["metadata"] = dict(pod_template.get("metadata") or {})
    for meta, given in (
        (job["metadata"], template.get("metadata") or {}),
        (pod_template["metadata"], pod_template["metadata"]),
    ):
        meta["labels"] = {**(given.get("labels") or {}), **marks}
        meta["annotations"] = {**(given.get("annotations") or {}), **marks, **exclusive}
    if has_hostnames(jobset):
        pod_template.setdefault("spec", {})["subdomain"] = subdomain(jobset)
    job["spec"]["suspend"] = bool(jobset["spec"].get("suspend"))
    return job


def new_service(jobset: Obj) -> Obj:
    """Return the headless Service that gives the pods their DNS names."""
    network = jobset["spec"].get("network") or {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain(jobset),
            "namespace": jobset["metadata"]["namespace"],
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {words.JOBSET_NAME: jobset["metadata"]["name"]},
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
        },
    }


def resumed(job: Obj, replicated: Obj) -> Obj:
    """Return the Job unsuspended, with the changes of the template applied.

    Labels, annotations, node selector, tolerations and scheduling gates may change while a JobSet
    is suspended. They are merged, because others may have added to the Job's own.
    """
    source = (replicated["template"].get("spec") or {}).get("template") or {}
    spec = deepcopy(job["spec"])
    target = spec["template"]
    meta, given = target.setdefault("metadata", {}), source.get("metadata") or {}
    for name in ("labels", "annotations"):
        _merge_map(meta, given, name)
    pod, pod_given = target["spec"], source.get("spec") or {}
    _merge_map(pod, pod_given, "nodeSelector")
    for name in ("tolerations", "schedulingGates"):
        _merge_list(pod, pod_given, name)
    spec["suspend"] = False
    return {**job, "spec": spec}


def _merge_map(target: Obj, source: Obj, name: str) -> None:
    merged = {**(target.get(name) or {}), **(source.get(name) or {})}
    if merged:
        target[name] = merged


def _merge_list(target: Obj, source: Obj, name: str) -> None:
    merged: list[Obj] = list(target.get(name) or [])
    merged += [one for one in source.get(name) or [] if one not in merged]
    if merged:
        target[name] = merged


def _marks(jobset: Obj, replicated: Obj, index: int) -> dict[str, str]:
    """Return the labels of a Job and of its pods, which are also their annotations."""
    meta, name = jobset["metadata"], replicated["name"]
    everyone = roles_of(jobset)
    group = replicated.get("groupName", "")
    peers = [one for one in everyone if one.get("groupName", "") == group]
    full_name = f"{meta['namespace']}/{job_name(jobset, name, index)}"
    marks = {
        words.JOBSET_NAME: meta["name"],
        words.JOBSET_UID: meta["uid"],
        words.REPLICATED_JOB: name,
        words.RESTART_ATTEMPT: str(restarts(jobset)),
        words.REPLICATED_JOB_REPLICAS: str(replicas(replicated)),
        words.GLOBAL_REPLICAS: str(sum(map(replicas, everyone))),
        words.JOB_INDEX: str(index),
        # A label value, not a secret: the digest is part of JobSet's API.
        words.JOB_KEY: hashlib.sha1(full_name.encode(), usedforsecurity=False).hexdigest(),
        words.JOB_GLOBAL_INDEX: str(_before(everyone, name) + index),
        words.GROUP_NAME: group,
        words.GROUP_REPLICAS: str(sum(map(replicas, peers))),
        words.JOB_GROUP_INDEX: str(_before(peers, name) + index),
    }
    coordinator = jobset["spec"].get("coordinator")
    if coordinator:
        marks[words.COORDINATOR] = coordinator_endpoint(jobset)
    return marks


def coordinator_endpoint(jobset: Obj) -> str:
    """Return the stable host name of the pod in `spec.coordinator`."""
    chosen = jobset["spec"]["coordinator"]
    name = job_name(jobset, chosen["replicatedJob"], chosen.get("jobIndex", 0))
    return f"{name}-{chosen.get('podIndex', 0)}.{subdomain(jobset)}"


def _exclusive_placement(jobset: Obj, replicated: Obj) -> dict[str, str]:
    found: dict[str, str] = {}
    template_meta = replicated["template"].get("metadata") or {}
    for given in (annotations_of(jobset), template_meta.get("annotations") or {}):
        if EXCLUSIVE_TOPOLOGY in given:
            names = (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY)
            found.update({name: given[name] for name in names if name in given})
    return found


def roles_of(jobset: Obj) -> list[Obj]:
    """Return the replicatedJobs of a JobSet, which may have none."""
    return jobset["spec"].get("replicatedJobs") or []


def replicas(replicated: Obj) -> int:
    """Return the number of Jobs of a replicatedJob."""
    return int(replicated.get("replicas", 1))


def _before(everyone: Iterable[Obj], name: str) -> int:
    """Return the number of Jobs in the replicatedJobs before the named one."""
    count = 0
    for one in everyone:
        if one["name"] == name:
            break
        count += replicas(one)
    return count
