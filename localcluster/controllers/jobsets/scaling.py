"""Scaling by JobSet's KEP-463: replicas, and the pods of each Job. v0.11.0 rejects it.

The controller deletes Jobs with the highest indexes and resizes the others. On existing pods,
labels that count the other Jobs are unchanged: they are part of the pod template.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy

from localcluster.controllers.base.objects import Obj, labels_of
from localcluster.controllers.jobsets import constants as words
from localcluster.controllers.jobsets.build import replicas, roles_of

_PER_JOB = ("parallelism", "completions")


def without_sizes(roles: Iterable[Obj]) -> list[Obj]:
    """Return the replicatedJobs without the fields that scaling may change."""
    stripped = deepcopy(list(roles))
    for role in stripped:
        role.pop("replicas", None)
        for field in _PER_JOB:
            role["template"]["spec"].pop(field, None)
    return stripped


def size_problems(new: Iterable[Obj], old: Iterable[Obj]) -> Iterator[str]:
    """Yield the validation errors of the new sizes of the same replicatedJobs."""
    for place, (role, before) in enumerate(zip(new, old, strict=True)):
        field = f"spec.replicatedJobs[{place}]"
        job, job_before = role["template"]["spec"], before["template"]["spec"]
        sizes, present = _checked_sizes(role), _checked_sizes(before)
        for path, size in sizes.items():
            # A size accepted at creation remains valid, or no other field could be changed any
            # more.
            if size < 1 and size != present[path]:
                yield (f"{field}.{path}: Invalid value: {size}: must be greater than or equal to 1")
        if job.get("completions") != job_before.get("completions") and not _is_elastic(job):
            # A Job rejects it too, and the controller would retry forever.
            yield (
                f"{field}.template.spec.completions: Invalid value: {job.get('completions')}: may "
                "only change in an Indexed Job, together with parallelism and to the same number"
            )


def _checked_sizes(role: Obj) -> dict[str, int]:
    job = role["template"]["spec"]
    sizes = {"replicas": replicas(role)}
    return sizes | {f"template.spec.{one}": job.get(one, 1) for one in _PER_JOB}


def is_surplus(job: Obj, jobset: Obj) -> bool:
    """Return True if the Job's index is beyond the current replicas."""
    wanted = {role["name"]: replicas(role) for role in roles_of(jobset)}
    labels = labels_of(job)
    return int(labels[words.JOB_INDEX]) >= wanted.get(labels[words.REPLICATED_JOB], 0)


def resized(job: Obj, jobset: Obj) -> Obj | None:
    """Return the Job with the current sizes of its replicatedJob; None if it has them."""
    name = labels_of(job)[words.REPLICATED_JOB]
    role = next(one for one in roles_of(jobset) if one["name"] == name)
    wanted = _sizes(role["template"]["spec"])
    if wanted == _sizes(job["spec"]):
        return None
    return {**job, "spec": {**job["spec"], **wanted}}


def _sizes(job: Mapping[str, object]) -> dict[str, object]:
    """Return parallelism and completions, with the Job API's defaults."""
    parallelism, completions = (job.get(one) for one in _PER_JOB)
    if parallelism is None and completions is None:
        return {"parallelism": 1, "completions": 1}
    sizes = {"parallelism": 1 if parallelism is None else parallelism}
    return sizes if completions is None else {**sizes, "completions": completions}


def _is_elastic(job: Obj) -> bool:
    indexed = job.get("completionMode") == "Indexed"
    return indexed and job.get("completions") == job.get("parallelism", 1)
