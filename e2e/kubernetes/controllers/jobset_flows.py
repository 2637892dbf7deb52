"""The recorded JobSet flows."""

from functools import partial
from typing import Any

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.kubernetes.controllers.job_flows import NODE, Flow, pod_template
from e2e.kubernetes.controllers.recorder import Recorder

Object = dict[str, Any]

ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "jobset.sigs.k8s.io/job-index"


def replicated(name: str, *, replicas: int = 1, pods: int = 1, **fields: Any) -> Object:
    job_spec = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": pod_template(),
    }
    template = {"metadata": {"annotations": {"example.com/role": name}}, "spec": job_spec}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def jobset(name: str, *roles: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"flow": "trace"}},
        "spec": {"replicatedJobs": list(roles), **spec},
    }


async def _create(r: Recorder, manifest: Object) -> None:
    await r.step("create", lambda: r.create("JobSet", manifest), given=manifest)


async def _bind(r: Recorder) -> None:
    await r.step("bind all pods", lambda: r.bind(NODE))


async def _finish(
    plane: ControlPlane, r: Recorder, namespace: str, selector: str, phase: str
) -> None:
    await r.step(
        f"finish pods {selector or 'all'} as {phase}",
        lambda: plane.finish_pods(namespace, selector, phase),
    )


async def _suspend(r: Recorder, name: str, *, suspend: bool) -> None:
    patch = {"spec": {"suspend": suspend}}
    word = "suspend" if suspend else "resume"
    await r.step(word, lambda: r.patch("JobSet", name, patch), given=patch)


async def complete(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Complete two roles of two Jobs of four pods."""
    roles = (replicated("left", replicas=2, pods=4), replicated("right", replicas=2, pods=4))
    await _create(r, jobset("train", *roles))
    await _bind(r)
    await _finish(plane, r, namespace, f"{ROLE}=left", "Succeeded")
    await _finish(plane, r, namespace, f"{ROLE}=right", "Succeeded")


async def suspended(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    roles = (replicated("a", pods=2), replicated("b", pods=1))
    await _create(r, jobset("paused", *roles, suspend=True))
    await _suspend(r, "paused", suspend=False)
    await _bind(r)
    await _suspend(r, "paused", suspend=True)
    await _suspend(r, "paused", suspend=False)
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def in_order(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    roles = (replicated("driver", pods=1), replicated("workers", replicas=2, pods=2))
    order = {"startupPolicyOrder": "InOrder"}
    await _create(r, jobset("ordered", *roles, startupPolicy=order))
    await _bind(r)
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def depends_on(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Let the second role wait for the first to be ready, the third for it to complete."""
    roles = (
        replicated("first", pods=2),
        replicated("second", dependsOn=[{"name": "first", "status": "Ready"}]),
        replicated("third", dependsOn=[{"name": "first", "status": "Complete"}]),
    )
    await _create(r, jobset("chain", *roles))
    await _bind(r)
    await _bind(r)
    await _finish(plane, r, namespace, f"{ROLE}=first", "Succeeded")
    await _bind(r)
    await _finish(plane, r, namespace, "", "Succeeded")


async def restarted(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Allow one restart: a failed pod recreates all Jobs, the next failure ends the JobSet."""
    roles = (replicated("a", replicas=2, pods=2), replicated("b", pods=1))
    await _create(r, jobset("again", *roles, failurePolicy={"maxRestarts": 1}))
    await _bind(r)
    one = f"{ROLE}=a,{INDEX}=1,batch.kubernetes.io/job-completion-index=0"
    await _finish(plane, r, namespace, one, "Failed")
    await _bind(r)
    await _finish(plane, r, namespace, one, "Failed")


async def failed(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Fail a Job without failure policy, which fails the JobSet."""
    await _create(r, jobset("broken", replicated("a", replicas=2, pods=1)))
    await _bind(r)
    await _finish(plane, r, namespace, f"{INDEX}=0", "Failed")


async def success_policy(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Complete the JobSet with its leader; the workers are terminated."""
    policy = {"operator": "Any", "targetReplicatedJobs": ["leader"]}
    roles = (replicated("leader"), replicated("worker", pods=2))
    await _create(r, jobset("led", *roles, successPolicy=policy))
    await _bind(r)
    await _finish(plane, r, namespace, f"{ROLE}=leader", "Succeeded")


async def deleted(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    for propagation in ("Background", "Foreground"):
        await _create(r, jobset("gone", replicated("a", replicas=2, pods=2)))
        await _bind(r)
        await r.step(
            f"delete, propagation {propagation}",
            partial(r.delete, "JobSet", "gone", propagation),
        )


async def refused(plane: ControlPlane, r: Recorder, namespace: str) -> None:
    """Create JobSets that the JobSet webhooks and schema reject."""
    bad: dict[str, Object] = {
        "two roles of one name": jobset("bad", replicated("a"), replicated("a")),
        "a role name that is no DNS label": jobset("bad", replicated("A_b")),
        "a dependency on a later role": jobset(
            "bad", replicated("a", dependsOn=[{"name": "b", "status": "Ready"}]), replicated("b")
        ),
        "a success policy for a missing role": jobset(
            "bad",
            replicated("a"),
            successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]},
        ),
        "names too long for the pods": jobset("b" * 60, replicated("a")),
        "an unknown startup order": jobset(
            "bad", replicated("a"), startupPolicy={"startupPolicyOrder": "Backwards"}
        ),
    }
    for why, manifest in bad.items():
        await r.step(
            f"create with {why}",
            partial(r.create, "JobSet", manifest),
            given=manifest,
        )
    await _create(r, jobset("good", replicated("a"), suspend=True))
    grown = {"spec": {"replicatedJobs": [replicated("a", replicas=2)]}}
    await r.step(
        "change replicatedJobs while suspended",
        lambda: r.patch("JobSet", "good", grown),
        given=grown,
    )


FLOWS: dict[str, Flow] = {
    "jobset-complete": complete,
    "jobset-suspended": suspended,
    "jobset-in-order": in_order,
    "jobset-depends-on": depends_on,
    "jobset-restarted": restarted,
    "jobset-failed": failed,
    "jobset-success-policy": success_policy,
    "jobset-deleted": deleted,
    "jobset-refused": refused,
}
