"""Users' steady rate of requests during changes, none of which may fail."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

from api.constants import ANNOTATION_GANG_MODE, GROUP, SCHEDULER_NAME
from e2e.harness.objects import Json, job, jobset, pod, replicated_job
from e2e.harness.support.rest import MERGE_PATCH, Answer, Rest

NAMESPACE = "users"
_RETRIES = 10
"""Maximum retries, as in client-go."""
_DRY_RUN = {"dryRun": "All"}
_GANG = {"gang": {"minCount": 2}}


def _ours(version: str, kind: str, **spec: Any) -> Json:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {}, "spec": spec}


Stored = tuple[str, Sequence[str], Json]
"""The plural, the versions, and an object without its name."""
Asked = tuple[str, Json]
"""A collection and an object."""

STORED: Sequence[Stored] = (
    (
        "workloads",
        ("v1alpha1", "v1alpha2", "v1alpha3"),
        _ours("v1alpha1", "Workload", podGroups=[{"name": "a", "policy": _GANG}]),
    ),
    (
        "workloads",
        ("v1alpha1", "v1alpha2", "v1alpha3"),
        _ours("v1alpha3", "Workload", podGroupTemplates=[{"name": "a", "schedulingPolicy": _GANG}]),
    ),
    (
        "podgroups",
        ("v1alpha2", "v1alpha3"),
        _ours("v1alpha2", "PodGroup", workloadRef={"name": "w"}, podGroupTemplateName="t"),
    ),
    ("podgroups", ("v1alpha2", "v1alpha3"), _ours("v1alpha3", "PodGroup", schedulingPolicy=_GANG)),
    (
        "compositepodgroups",
        ("v1alpha3",),
        _ours(
            "v1alpha3",
            "CompositePodGroup",
            schedulingPolicy={"gang": {"minGroupCount": 1}},
            workloadRef={"workloadName": "w", "templateName": "t"},
        ),
    ),
)
"""Objects created in their version, read in each version, changed in the oldest, and deleted."""


def _asked() -> Sequence[Asked]:
    """Return requests sent only as dry runs, so that nothing starts."""
    gang = job("asked", NAMESPACE)
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "asked"},
        "spec": {
            "schedule": "0 0 * * *",
            "jobTemplate": {
                "metadata": {"annotations": {ANNOTATION_GANG_MODE: "Gang"}},
                "spec": gang["spec"],
            },
        },
    }
    grouped = pod("asked", NAMESPACE, group="asked", scheduler=SCHEDULER_NAME)
    return (
        (f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", gang),
        (f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs", cron),
        (
            f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets",
            jobset("asked", replicated_job("w", NAMESPACE)),
        ),
        (f"/api/v1/namespaces/{NAMESPACE}/pods", grouped),
    )


class Traffic:
    """Traffic generator: `rate` times per second it handles one object.

    It creates, reads, changes and deletes the object, or sends it as a dry run. Every failed
    request is in `failures`. `made` counts the others, and `deferred` the requests with a
    Retry-After: API servers respond so while a definition changes.
    """

    def __init__(self, rest: Rest, rate: float) -> None:
        self._rest = rest
        self._rate = rate
        self._stopped = False
        self.made = 0
        self.deferred = 0
        self.failures: list[str] = []

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        """Run until `stop`. Open-loop: a slow response does not delay later requests."""
        started = time.monotonic()
        kinds: list[Stored | Asked] = [*STORED, *_asked()]
        visits = itertools.cycle(kinds)
        number = 0
        async with asyncio.TaskGroup() as group:
            while not self._stopped:
                due = int((time.monotonic() - started) * self._rate)
                while number < due:
                    group.create_task(self._visit(f"user-{number}", next(visits)))
                    number += 1
                await asyncio.sleep(0.5 / self._rate)

    async def _visit(self, name: str, what: Stored | Asked) -> None:
        if len(what) == 2:
            await self._ask("POST", what[0], what[1], params=_DRY_RUN)
            return
        plural, versions, obj = what
        body = {**obj, "metadata": {"name": name}}
        if not await self._ask("POST", self._path(obj["apiVersion"], plural), body):
            return
        for version in versions:
            await self._ask("GET", f"{self._path(f'{GROUP}/{version}', plural)}/{name}")
        change = {"metadata": {"labels": {"seen": "yes"}}}
        path = f"{self._path(f'{GROUP}/{versions[0]}', plural)}/{name}"
        await self._ask("PATCH", path, change, content_type=MERGE_PATCH)
        await self._ask("DELETE", f"{self._path(obj['apiVersion'], plural)}/{name}")

    def _path(self, version: str, plural: str) -> str:
        return f"/apis/{version}/namespaces/{NAMESPACE}/{plural}"

    async def _ask(self, method: str, path: str, body: object = None, **options: Any) -> bool:
        try:
            answer = await self._call(method, path, body, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed request
            self.failures.append(f"{method} {path}: {error!r}")
            return False
        if answer.status not in (200, 201):
            self.failures.append(f"{method} {path}: {answer.status} {answer.text[:400]}")
            return False
        self.made += 1
        return True

    async def _call(self, method: str, path: str, body: object, **options: Any) -> Answer:
        """Send a request as client-go and kubectl do, respecting Retry-After."""
        answer = await self._rest.call(method, path, body, **options)
        for _ in range(_RETRIES):
            wait = answer.headers.get("Retry-After")
            if answer.status != 429 or wait is None:
                break
            self.deferred += 1
            await asyncio.sleep(float(wait))
            answer = await self._rest.call(method, path, body, **options)
        return answer
