"""Crashes of the controller between two writes: every pod is still counted exactly once."""

from dataclasses import replace
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from localcluster.controllers.base.objects import uid_of, without_finalizer
from localcluster.controllers.jobs.conclude import Outcome, conclude
from localcluster.controllers.jobs.decide import decide
from localcluster.controllers.jobs.pods import TRACKING_FINALIZER
from localcluster.controllers.jobs.view import Backoff, observe
from localcluster.tests.controllers.builders import Obj, at, make_job, make_pod, with_status

# The point at which a sync crashes: before its first status, after it, after removing half of the
# finalizers, after all of them, or never.
Crash = Literal["start", "interim", "half", "released", "never"]
Step = tuple[str, Crash]

PODS = 6
NOW = at(1_000_000)  # long after any backoff


class Cluster:
    """A Job and its pods; only what is stored here survives a crash."""

    def __init__(self, *, indexed: bool) -> None:
        mode = "Indexed" if indexed else "NonIndexed"
        self.job = make_job(
            parallelism=PODS, completions=PODS, completionMode=mode, backoffLimit=1000
        )
        self.pods: dict[str, Obj] = {}
        self.made = 0
        self.succeeded: set[str] = set()
        self.failed: set[str] = set()

    def sync(self, crash: Crash) -> None:
        view = observe(self.job, list(self.pods.values()), Backoff())
        decision = decide(replace(view, backoff=Backoff()), NOW)
        for template in decision.create:
            self._make(template)
        if crash == "start":
            return
        conclusion = conclude(view, decision, Outcome(created=len(decision.create)), NOW)
        if conclusion.interim is not None:
            self.job = {**self.job, "status": conclusion.interim}
        if crash == "interim":
            return
        release = list(conclusion.release)
        if crash == "half":
            release = release[: len(release) // 2]
        for pod in release:
            self.pods[uid_of(pod)] = without_finalizer(self.pods[uid_of(pod)], TRACKING_FINALIZER)
        if crash in ("half", "released"):
            return
        if conclusion.final is not None:
            self.job = {**self.job, "status": conclusion.final}

    def end_one(self, phase: str) -> None:
        running = [one for one in self.pods.values() if one["status"]["phase"] == "Pending"]
        if not running:
            return
        pod = running[0]
        self.pods[uid_of(pod)] = with_status(pod, phase=phase)
        (self.succeeded if phase == "Succeeded" else self.failed).add(uid_of(pod))

    def _make(self, template: Obj) -> None:
        self.made += 1
        meta = template["metadata"]
        pod = make_pod(f"p{self.made}")
        pod["metadata"]["annotations"] = meta.get("annotations", {})
        self.pods[uid_of(pod)] = pod


steps = st.lists(
    st.tuples(
        st.sampled_from(["Succeeded", "Failed", ""]),
        st.sampled_from(["start", "interim", "half", "released", "never"]),
    ),
    max_size=40,
)


@given(steps=steps, indexed=st.booleans())
def test_every_pod_is_counted_once(steps: list[Step], indexed: bool) -> None:
    cluster = Cluster(indexed=indexed)
    for phase, crash in steps:
        if phase:
            cluster.end_one(phase)
        cluster.sync(crash)

    for _ in range(4):
        cluster.sync("never")

    status = cluster.job["status"]
    assert status.get("succeeded", 0) == len(cluster.succeeded)
    assert status.get("failed", 0) == len(cluster.failed)
    assert status["uncountedTerminatedPods"] == {}
    assert status.get("active", 0) == PODS - len(cluster.succeeded)
    finished = any(one["type"] == "Complete" for one in status.get("conditions", []))
    assert finished is (len(cluster.succeeded) == PODS)
