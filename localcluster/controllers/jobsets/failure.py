"""A JobSet's failure policy: the action that follows a failed Job."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localcluster.controllers.base.objects import Obj, condition, labels_of
from localcluster.controllers.jobsets import constants as words


@dataclass(frozen=True, slots=True)
class FailureAction:
    """The action to take: restart, counted against maxRestarts or not, or fail."""

    restart: bool
    reason: str
    message: str
    counted: bool = True


def choose(jobset: Obj, failed: Sequence[Obj]) -> FailureAction:
    """Return the action of the first rule that matches a failed Job; restart if none does."""
    policy = jobset["spec"].get("failurePolicy")
    if policy is None:
        return _action(
            "FailedJobs", "jobset failed due to one or more job failures", _first(failed)
        )
    action, job = "RestartJobSet", _first(failed)
    for rule in policy.get("rules") or []:
        matching = [one for one in failed if _applies(rule, one)]
        if matching:
            action, job = rule["action"], _first(matching)
            break
    used = (jobset.get("status") or {}).get("restartsCountTowardsMax", 0)
    if action == "RestartJobSet" and used >= policy.get("maxRestarts", 0):
        message = "jobset failed due to reaching max number of restarts"
        return _action("ReachedMaxRestarts", message, job)
    return _action(
        f"{action}FailurePolicyAction",
        f"applying {action} failure policy action",
        job,
        restart=action != "FailJobSet",
        counted=action == "RestartJobSet",
    )


def _action(
    reason: str, message: str, job: Obj, *, restart: bool = False, counted: bool = True
) -> FailureAction:
    named = f"{message} (first failed job: {job['metadata']['name']})"
    return FailureAction(restart, reason, named, counted)


def _first(failed: Sequence[Obj]) -> Obj:
    """Return the Job that failed first."""
    return min(failed, key=lambda job: str(_failure(job).get("lastTransitionTime", "")))


def _failure(job: Obj) -> Obj:
    return condition(job, "Failed") or {}


def _applies(rule: Obj, job: Obj) -> bool:
    failure = _failure(job)
    reasons = rule.get("onJobFailureReasons") or [failure.get("reason")]
    patterns = rule.get("onJobFailureMessagePatterns") or [""]
    parent = labels_of(job).get(words.REPLICATED_JOB)
    targets = rule.get("targetReplicatedJobs") or [parent]
    return (
        failure.get("reason") in reasons
        and any(re.search(one, failure.get("message", "")) for one in patterns)
        and parent in targets
    )
