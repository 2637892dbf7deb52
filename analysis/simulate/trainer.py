"""The JobSet that Kubeflow Trainer creates for a TrainJob and its runtime (v2.0.0).

It has all that decides where its pods fit: the number of nodes, their resources, and the overrides
of pod specs. Trainer's other additions (environment, commands, volumes of its own) do not affect
scheduling.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from api.constants import JOBSET, TRAIN_JOB
from api.reading import dig, integer, labels_of, listing, mapping, mappings, text
from kube.base.errors import ConfigError

Json = dict[str, Any]
Runtimes = Mapping[tuple[str, str, str], Json]
"""Runtimes by kind, namespace (empty for a ClusterTrainingRuntime) and name."""

CLUSTER_RUNTIME: Final = "ClusterTrainingRuntime"
RUNTIMES: Final = (CLUSTER_RUNTIME, "TrainingRuntime")

_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER: Final = "trainer"
_INITIALIZERS: Final = ("dataset-initializer", "model-initializer")
_NODE: Final = "node"
_PORT: Final = 29500
"""The port on which torchrun's nodes listen."""


def runtimes_of(documents: Iterable[Any], namespace: str) -> Runtimes:
    """Return the runtimes among the documents, also those in a List."""
    found: dict[tuple[str, str, str], Json] = {}
    for each in documents:
        kind, meta = each.get("kind"), mapping(each.get("metadata"))
        if kind == "List":
            found |= runtimes_of(
                (it for it in listing(each.get("items")) if mapping(it)), namespace
            )
        elif kind in RUNTIMES:
            space = "" if kind == CLUSTER_RUNTIME else text(meta.get("namespace")) or namespace
            found[kind, space, text(meta.get("name"))] = each
    return found


def runtime_of(train_job: Json, runtimes: Runtimes) -> Json | None:
    """Return the runtime that a TrainJob names; None for one that is not in the files."""
    kind, name = _reference(train_job)
    space = "" if kind == CLUSTER_RUNTIME else train_job["metadata"]["namespace"]
    return runtimes.get((kind, space, name))


def without_runtime(train_jobs: Sequence[Json], *, others: bool) -> list[str]:
    """Return a line for each TrainJob whose runtime is not in the files.

    Raises ConfigError if there are no `others`: then no object is simulated.
    """
    lines: list[str] = []
    for it in train_jobs:
        kind, name = _reference(it)
        space = "" if kind == CLUSTER_RUNTIME else f"-n {it['metadata']['namespace']} "
        lines.append(
            f"{TRAIN_JOB.kind} {it['metadata']['name']}: its {kind} {name} is not in the files:"
            f" add the output of kubectl {space}get {kind.lower()} {name} -o yaml"
        )
    if lines and not others:
        raise ConfigError("; ".join(lines))
    return [f"left out: {line}" for line in lines]


def jobset_of(train_job: Json, runtime: Json) -> Json:
    """Return the JobSet of a TrainJob. Raises ConfigError for a group of another scheduler."""
    spec, policy = mapping(train_job.get("spec")), mapping(dig(runtime, "spec", "mlPolicy"))
    name = text(train_job["metadata"].get("name"))
    if mapping(dig(runtime, "spec", "podGroupPolicy")):
        raise ConfigError(
            f"{TRAIN_JOB.kind} {name}: spec.podGroupPolicy of its runtime creates a group"
            " of another scheduler: remove the field"
        )
    template = mapping(dig(runtime, "spec", "template"))
    above, said = mapping(template.get("metadata")), train_job["metadata"]
    made: Json = copy.deepcopy(dict(mapping(template.get("spec"))))
    if "suspend" in spec:
        made["suspend"] = spec["suspend"]
    for replicated in listing(made.get("replicatedJobs")):
        _complete(replicated, spec, policy)
    metadata = {
        "name": name,
        "namespace": said["namespace"],
        "labels": {**mapping(above.get("labels")), **mapping(spec.get("labels"))},
        "annotations": {**mapping(above.get("annotations")), **mapping(spec.get("annotations"))},
    }
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": metadata,
        "spec": made,
    }


def _complete(replicated: Json, spec: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    """Write the settings of its TrainJob into a replicatedJob."""
    job = replicated["template"]["spec"]
    pod_spec = job["template"]["spec"]
    for override in mappings(spec, "podSpecOverrides"):
        if any(it.get("name") == replicated["name"] for it in listing(override.get("targetJobs"))):
            _override(pod_spec, override)
    step = text(labels_of(replicated["template"]).get(_ANCESTOR))
    trainer = mapping(spec.get("trainer"))
    job["parallelism"] = job["completions"] = max(
        1, _nodes(replicated["name"], step, job, trainer, policy)
    )
    if step == _TRAINER or step in _INITIALIZERS:
        replicated["replicas"] = 1
    if step != _TRAINER:
        return
    for container in listing(pod_spec.get("containers")):
        if container.get("name") == _NODE and mapping(trainer.get("resourcesPerNode")):
            container["resources"] = dict(trainer["resourcesPerNode"])
        if container.get("name") == _NODE and trainer and "torch" in policy:
            ports = [*listing(container.get("ports"))]
            if all(it.get("containerPort") != _PORT for it in ports):
                container["ports"] = [*ports, {"containerPort": _PORT}]


def _nodes(
    name: str,
    step: str,
    job: Mapping[str, Any],
    trainer: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> int:
    """Return the number of pods of a replicatedJob."""
    asked = integer(trainer.get("numNodes"))
    mpi = policy.get("mpi")
    if asked is not None and mpi is not None and name == _NODE:
        # The launcher is one of the nodes then, in a replicatedJob of its own.
        return asked - (mapping(mpi).get("runLauncherAsNode") is True)
    if asked is not None and mpi is None and step == _TRAINER:
        return asked
    usual = policy.get("numNodes") if step == _TRAINER and policy else job.get("parallelism")
    found = integer(usual)
    return 1 if found is None else found


def _override(pod_spec: Json, override: Mapping[str, Any]) -> None:
    """Merge as a strategic merge patch: maps by key, entries by name, other lists replaced."""
    for field, value in override.items():
        before = pod_spec.get(field)
        if isinstance(value, dict):
            pod_spec[field] = {**mapping(before), **value}
        elif field in ("volumes", "containers", "initContainers", "schedulingGates"):
            named = {it["name"]: it for it in listing(before)}
            for it in listing(value):
                named[it["name"]] = {**named.get(it["name"], {}), **it}
            pod_spec[field] = list(named.values())
        elif field != "targetJobs":
            pod_spec[field] = value


def _reference(train_job: Json) -> tuple[str, str]:
    """Return kind and name of its runtime."""
    found = mapping(dig(train_job, "spec", "runtimeRef"))
    return text(found.get("kind")) or CLUSTER_RUNTIME, text(found.get("name"))
