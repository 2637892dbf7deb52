"""Release of Jobs and pods to the default scheduler, in a way that a crash loses no Job.

A Job that is recreated does not exist for a moment. Before its deletion it is recorded in a Secret
in Muster's namespace, where only administrators write. The Secret is deleted once the new Job
exists. The next run of the command completes what is recorded.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from api.constants import JOBSET
from api.reading import controller_of, dig, text
from api.scheduler_names import USUAL, SchedulerNames
from cli.trees.listing import get_or_none
from cli.uninstall.errors import StillThereError
from cli.uninstall.found import RECORD_LABEL
from cli.uninstall.installation import LABEL, LABEL_VALUE
from cli.uninstall.release import (
    TRACKING_FINALIZER,
    Handover,
    HandoverMethod,
    Target,
    needs_release,
    release_job,
    remade,
    target_of,
)
from cli.uninstall.writing import delete, drop_finalizers
from kube.base.errors import AlreadyExists, ApiError, NotFound
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, NAMESPACES, PODS, SECRETS

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remaking:
    """One release. `namespace` has the records; `timeout` bounds a Job's deletion, in seconds."""

    client: Client
    namespace: str
    timeout: float
    names: SchedulerNames = USUAL

    async def hand_over(self, handover: Handover) -> list[Handover]:
        """Release one Job or pod, if still possible; return what is left. Raises kube errors."""
        target = handover.target
        if target.resource == PODS:
            # As Kubernetes does for a suspended Job: without the finalizer the pod is not counted
            # as failed.
            await drop_finalizers(self.client, target, (TRACKING_FINALIZER,))
            await delete(self.client, target)
            return []
        # The plan may be old by now: the Job is read again, and its pods may have started
        # meanwhile.
        job = await get_or_none(self.client, JOBS, target.name, target.namespace)
        if (
            job is None
            or dig(job, "metadata", "uid") != target.uid
            or not needs_release(job, self.names)
        ):
            return []
        now = release_job(job, await self._pods(job), await self._jobset(job), self.names)
        if now.way is HandoverMethod.REMADE:
            return await self._recreate(job, handover)
        if now.way is HandoverMethod.BY_OWNER:
            await delete(self.client, target)
            return []
        return [now]

    async def restore(self, record: Target) -> None:
        """Complete the work of a record, and delete it. Raises kube errors, StillThereError."""
        secret = await get_or_none(self.client, SECRETS, record.name, record.namespace)
        if secret is None:
            return
        job = msgspec.json.decode(base64.b64decode(secret["data"]["job"]))
        old = text(dig(secret, "metadata", "labels", RECORD_LABEL))
        await self._replaced(job, old)
        await delete(self.client, target_of(SECRETS, secret))

    async def _recreate(self, job: Object, handover: Handover) -> list[Handover]:
        wanted = remade(job)
        try:
            await self._check(wanted)
            record = await self._record(wanted, handover.target.uid)
        except ApiError as error:
            why = f"it cannot be recreated: {error.message}"
            return [replace(handover, way=HandoverMethod.LEFT, why=why)]
        await self.restore(record)
        return []

    async def _check(self, job: Object) -> None:
        """Check that quotas and policies allow a Job like it, before the old one is deleted."""
        # Under a generated name, as the old Job still has this one.
        meta = {key: value for key, value in job["metadata"].items() if key != "name"}
        like = job | {"metadata": meta | {"generateName": f"{job['metadata']['name']}-"}}
        await self.client.create(JOBS, like, dry_run=True)

    async def _record(self, job: Object, uid: str) -> Target:
        name = f"muster-released-{uid}"
        labels = {LABEL: LABEL_VALUE, RECORD_LABEL: uid}
        meta = {"name": name, "namespace": self.namespace, "labels": labels}
        data = {"job": base64.b64encode(msgspec.json.encode(job)).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
        try:
            return target_of(SECRETS, await self.client.create(SECRETS, secret))
        except AlreadyExists:
            # An earlier run recorded the same Job.
            return target_of(SECRETS, await self.client.get(SECRETS, name, self.namespace))
        except NotFound:
            # Another user deleted Muster's namespace before.
            place = {"metadata": {"name": self.namespace, "labels": {LABEL: LABEL_VALUE}}}
            with suppress(AlreadyExists):
                await self.client.create(NAMESPACES, place)
            return target_of(SECRETS, await self.client.create(SECRETS, secret))

    async def _replaced(self, job: Object, old: str) -> None:
        # Each pass does the step that the cluster needs now. So a second run continues wherever a
        # crash ended the first.
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    there = await get_or_none(self.client, JOBS, name, namespace)
                    if there is None:
                        with suppress(AlreadyExists):
                            await self.client.create(JOBS, job)
                    elif dig(there, "metadata", "uid") != old:
                        return
                    elif not dig(there, "metadata", "deletionTimestamp"):
                        await delete(self.client, target_of(JOBS, there))
                    else:
                        await asyncio.sleep(0.2)
        except TimeoutError as error:
            raise StillThereError(self.timeout, f"Job {namespace}/{name} to be deleted") from error

    async def _pods(self, job: Object) -> list[Object]:
        namespace, uid = job["metadata"]["namespace"], job["metadata"]["uid"]
        ours = f"spec.schedulerName={dig(job, 'spec', 'template', 'spec', 'schedulerName')}"
        found = await self.client.list(PODS, namespace, field_selector=ours)
        return [pod for pod in found["items"] if controller_of(pod).get("uid") == uid]

    async def _jobset(self, job: Object) -> Object | None:
        owner = controller_of(job)
        if owner.get("kind") != JOBSET.kind:
            return None
        name, namespace = text(owner.get("name")), job["metadata"]["namespace"]
        return await get_or_none(self.client, JOBSETS, name, namespace)
