"""A Job's policies: podFailurePolicy, backoffLimitPerIndex and successPolicy."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from localcluster.controllers.base.objects import Obj, annotations_of
from localcluster.controllers.jobs.indexes import parse

INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The action of the rule that matches a failed pod, "Count" if none does."""

    action: str = "Count"
    message: str = ""  # the message of the Job's failure, if this rule fails it

    @property
    def counted(self) -> bool:
        """True if the failure counts against the Job's limits."""
        return self.action != "Ignore"


def verdict(job: Obj, pod: Obj) -> Verdict:
    """Evaluate the Job's podFailurePolicy for a failed pod."""
    policy = job["spec"].get("podFailurePolicy") or {}
    for place, rule in enumerate(policy.get("rules") or ()):
        action, meta = rule["action"], pod["metadata"]
        where = f"{meta['namespace']}/{meta['name']}"
        if rule.get("onExitCodes") is not None:
            container = next(_exits(pod, rule["onExitCodes"]), None)
            if container is not None:
                code = container["state"]["terminated"]["exitCode"]
                what = f"Container {container['name']} for pod {where} failed with exit code {code}"
                return _matched(action, what, place)
        elif kind := _condition(pod, rule.get("onPodConditions") or ()):
            return _matched(action, f"Pod {where} has condition {kind}", place)
    return Verdict()


def _matched(action: str, what: str, place: int) -> Verdict:
    message = f"{what} matching {action} rule at index {place}" if action == "FailJob" else ""
    return Verdict(action, message)


def _exits(pod: Obj, wanted: Obj) -> Iterator[Obj]:
    """Return the statuses of the containers whose exit codes match."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(kind) or ():
            terminated = (each.get("state") or {}).get("terminated")
            named = wanted.get("containerName") in (None, each["name"])
            if terminated is None or not named or not terminated.get("exitCode"):
                continue
            if (terminated["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
                yield each


def _condition(pod: Obj, patterns: Collection[Mapping[str, str]]) -> str:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if any((each["type"], each["status"]) == (p["type"], p["status"]) for p in patterns):
            return str(each["type"])
    return ""


# Per index


def index_limit(job: Obj) -> int | None:
    """Return `backoffLimitPerIndex`; None if all indexes share one limit."""
    limit: int | None = job["spec"].get("backoffLimitPerIndex")
    return limit


def gives_up_index(job: Obj, pod: Obj) -> bool:
    """Return True if the index of this failed pod is not retried."""
    said = verdict(job, pod)
    limit = index_limit(job) or 0
    return said.action == "FailIndex" or (said.counted and index_failures(pod) >= limit)


def index_failures(pod: Obj) -> int:
    """Return the number of earlier failures of the pod's index that counted."""
    return _count(pod, INDEX_FAILURES)


def all_index_failures(pod: Obj) -> int:
    """Return the number of earlier failures of the pod's index, ignored ones included."""
    return _count(pod, INDEX_FAILURES) + _count(pod, INDEX_IGNORED_FAILURES)


def _count(pod: Obj, annotation: str) -> int:
    text = annotations_of(pod).get(annotation, "")
    return int(text) if text.isdecimal() else 0


def failure_notes(job: Obj, replaced: Obj | None) -> dict[str, str]:
    """Return the annotations of the next pod of an index, which replaces this one."""
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counted = verdict(job, replaced).counted
    ignored = _count(replaced, INDEX_IGNORED_FAILURES) + (not counted)
    notes = {INDEX_FAILURES: str(index_failures(replaced) + counted)}
    return notes | ({INDEX_IGNORED_FAILURES: str(ignored)} if ignored else {})


# Success


def success(job: Obj, done: Collection[int]) -> str:
    """Return the message of the successPolicy rule that these indexes meet; empty if none."""
    policy = job["spec"].get("successPolicy") or {}
    for place, rule in enumerate(policy.get("rules") or ()):
        if done and _is_met(rule, frozenset(done), job["spec"]["completions"]):
            return f"Matched rules at index {place}"
    return ""


def _is_met(rule: Obj, done: frozenset[int], completions: int) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(done) >= count
    wanted = parse(rule["succeededIndexes"], completions)
    if not wanted:
        return False
    return wanted <= done or (count is not None and len(wanted & done) >= count)
