"""The recorded Job flows. Each gets a recorder, and the name of a node."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.kubernetes.controllers.recorder import Recorder

Object = dict[str, Any]
Flow = Callable[[ControlPlane, Recorder, str], Awaitable[None]]

NODE = "trace-node"
INDEX = "batch.kubernetes.io/job-completion-index"


def pod_template(**spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "trace"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "work",
                    "image": "registry.example/work:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            **spec,
        },
    }


def job(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"flow": "trace"}, "annotations": {"note": "kept"}},
        "spec": {"template": pod_template(), **spec},
    }


async def _create(r: Recorder, manifest: Object) -> None:
    await r.step("create", lambda: r.create("Job", manifest), given=manifest)


async def _bind(r: Recorder) -> None:
    await r.step("bind all pods", lambda: r.bind(NODE))


async def _finish(
    plane: ControlPlane, r: Recorder, namespace: str, selector: str, phase: str
) -> None:
    await r.step(
        f"finish pods {selector or 'all'} as {phase}",
        lambda: plane.finish_pods(namespace, selector, phase),
    )


async def plain(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("plain", parallelism=3, completions=3))
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def defaults(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("defaults"))
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def indexed(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("indexed", parallelism=3, completions=3, completionMode="Indexed"))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=1", "Succeeded")
    await _finish(plane, r, namespace, "", "Succeeded")


async def in_turns(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Run fewer pods at a time than completions."""
    await _create(r, job("turns", parallelism=2, completions=3))
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def work_queue(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Run a Job without completions: it is complete once one pod succeeded and none runs."""
    await _create(r, job("queue", parallelism=2))
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def scaled(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("scaled", parallelism=1, completions=4))
    for parallelism in (3, 1, 0):
        patch = {"spec": {"parallelism": parallelism}}
        await r.step(
            f"set parallelism {parallelism}",
            partial(r.patch, "Job", "scaled", patch),
            given=patch,
        )


async def suspended(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("paused", parallelism=2, completions=2, suspend=True))
    await _suspend(r, "paused", suspend=False)
    await _bind(r)
    await _suspend(r, "paused", suspend=True)
    await _suspend(r, "paused", suspend=False)
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def _suspend(r: Recorder, name: str, *, suspend: bool) -> None:
    patch = {"spec": {"suspend": suspend}}
    word = "suspend" if suspend else "resume"
    await r.step(word, lambda: r.patch("Job", name, patch), given=patch)


async def failing(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Fail a pod without retries: the Job fails, and the other pod is deleted."""
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0}
    await _create(r, job("failing", **spec))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=1", "Failed")


async def retried(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Retry once, ten seconds later; the second failure ends the Job."""
    await _create(r, job("retried", backoffLimit=1))
    await _bind(r)
    await _fail_and_retry(plane, r, namespace, "")
    await _bind(r)
    await _finish(plane, r, namespace, "", "Failed")


async def _fail_and_retry(plane: ControlPlane, r: Recorder, namespace: str, selector: str) -> None:
    async def has_new_pod() -> bool:
        return any(pod["status"]["phase"] == "Pending" for pod in await r.pods())

    await r.step(
        f"finish pods {selector or 'all'} as Failed",
        lambda: plane.finish_pods(namespace, selector, "Failed"),
        until=has_new_pod,
    )


async def index_given_up(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Fail an index without retries: once the others are done, the Job fails."""
    spec = {"parallelism": 2, "completions": 3, "completionMode": "Indexed"}
    await _create(r, job("given-up", **spec, backoffLimitPerIndex=0))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=0", "Failed")
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def index_retried(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Retry each index once; the second failure of one exceeds the Job's limit."""
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
    await _create(r, job("tried", **spec, backoffLimitPerIndex=1, maxFailedIndexes=0))
    await _bind(r)
    await _fail_and_retry(plane, r, namespace, f"{INDEX}=1")
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=1", "Failed")


async def index_failed_by_policy(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Fail an index by FailIndex although it has retries left."""
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    policy = _policy("FailIndex")
    await _create(r, job("hopeless", **spec, backoffLimitPerIndex=3, podFailurePolicy=policy))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=1", "Failed")
    await _finish(plane, r, namespace, "", "Succeeded")


async def failed_by_policy(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Fail a Job by FailJob at its first failure, whatever its limit."""
    spec = {"parallelism": 1, "completions": 2, "backoffLimit": 6}
    await _create(r, job("policy", **spec, podFailurePolicy=_policy("FailJob")))
    await _bind(r)
    await _finish(plane, r, namespace, "", "Failed")


async def failure_ignored(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Ignore failures: they do not exceed a limit of zero, and the pod is replaced."""
    await _create(r, job("ignored", backoffLimit=0, podFailurePolicy=_policy("Ignore")))
    await _bind(r)
    await _fail_and_retry(plane, r, namespace, "")
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


def _policy(action: str) -> Object:
    codes = {"operator": "In", "values": [1]}
    return {"rules": [{"action": action, "onExitCodes": codes}]}


async def success_policy(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Require a set of indexes in the first rule, and any two of another set in the second."""
    spec = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    rules = [{"succeededIndexes": "0,1"}, {"succeededIndexes": "1-3", "succeededCount": 2}]
    await _create(r, job("enough", **spec, successPolicy={"rules": rules}))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=3", "Succeeded")
    await _finish(plane, r, namespace, f"{INDEX}=2", "Succeeded")


async def too_slow(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Let activeDeadlineSeconds pass while the pod runs."""
    await _create(r, job("slow", activeDeadlineSeconds=5))
    await _bind(r)
    await r.step("wait for the deadline", lambda: asyncio.sleep(5))


async def pod_deleted(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Delete a running pod: it counts as failed and is replaced."""
    await _create(r, job("robbed", parallelism=1, backoffLimit=3))
    await _bind(r)

    async def delete_pods() -> None:
        for pod in await r.pods():
            await r.delete("Pod", pod["metadata"]["name"])

    async def has_new_pod() -> bool:
        pods = await r.pods()
        return any(pod["status"]["phase"] == "Pending" for pod in pods)

    await r.step("delete all pods", delete_pods, until=has_new_pod)


async def deleted(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    for propagation in ("Background", "Foreground"):
        await _create(r, job("deleted", parallelism=2, completions=2))
        await _bind(r)
        await r.step(
            f"delete, propagation {propagation}",
            partial(r.delete, "Job", "deleted", propagation),
        )


async def orphaned(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    await _create(r, job("orphaned", parallelism=1, completions=1))
    await _bind(r)
    await r.step("delete, propagation Orphan", lambda: r.delete("Job", "orphaned", "Orphan"))


FLOWS: dict[str, Flow] = {
    "job-plain": plain,
    "job-defaults": defaults,
    "job-indexed": indexed,
    "job-in-turns": in_turns,
    "job-work-queue": work_queue,
    "job-scaled": scaled,
    "job-suspended": suspended,
    "job-failing": failing,
    "job-retried": retried,
    "job-index-given-up": index_given_up,
    "job-index-retried": index_retried,
    "job-index-failed-by-policy": index_failed_by_policy,
    "job-failed-by-policy": failed_by_policy,
    "job-failure-ignored": failure_ignored,
    "job-success-policy": success_policy,
    "job-too-slow": too_slow,
    "job-pod-deleted": pod_deleted,
    "job-deleted": deleted,
    "job-orphaned": orphaned,
}
