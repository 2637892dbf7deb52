"""Execution of the plan, stage by stage, with a wait until the next can rely on the last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_MANAGED_GROUP
from api.reading import annotations_of, dig, listing, text
from api.scheduler_names import USUAL, SchedulerNames
from cli.trees.listing import get_or_none, list_items
from cli.uninstall import found as cluster
from cli.uninstall.errors import StillThereError
from cli.uninstall.installation import LABEL, LABEL_VALUE
from cli.uninstall.plan import (
    Action,
    RemovalStage,
    RemovalState,
    Step,
    counted_line,
    handovers,
    plan,
)
from cli.uninstall.release import Handover, HandoverMethod, Target
from cli.uninstall.remaking import Remaking
from cli.uninstall.writing import delete, drop_finalizers, patch
from kube.base.errors import ApiError, NotFound, ServerError
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import JOBS, NAMESPACES, PODS, SUBJECT_ACCESS_REVIEWS

Say = Callable[[str], None]

_AT_ONCE: Final = 32
"""Objects that are changed or deleted concurrently."""

_COUNTED: Final = {RemovalStage.NOTES, RemovalStage.FINALIZERS}
"""Stages whose steps are small, and not worth a line each."""
_MANY: Final = _COUNTED | {RemovalStage.RELEASE}
"""Stages that may have thousands of steps, none of which depends on another."""
_READ_AGAIN: Final = {RemovalStage.RELEASE, RemovalStage.NOTES, RemovalStage.REST}
"""Stages before which others may have changed the objects of the steps."""
_OF_INSTALLERS: Final = {RemovalStage.DEFINITIONS, RemovalStage.NAMESPACE}
"""Stages that `prepare` leaves to the installer."""
_ACCESS_SECONDS: Final = 10.0
"""Seconds that a change of rights may take to become effective."""

_POLL_SECONDS: Final = 0.2
"""Seconds between two checks whether an object is deleted."""


@dataclass(slots=True)
class Removal:
    """One run. `timeout` bounds each wait, in seconds; `unreleased` needs users to act.

    With `prepare` the installer deletes what is left then. `names` are the schedulerNames of
    Muster.
    """

    client: Client
    namespace: str
    release: bool
    say: Say
    timeout: float = 120.0
    prepare: bool = False
    names: SchedulerNames = USUAL
    unreleased: list[Handover] = field(default_factory=list)

    async def run(self) -> RemovalState:
        """Run all stages; return what was found before the last ones.

        Raises kube errors, StillThereError.
        """
        found = await self._read()
        for stage in RemovalStage:
            if self.prepare and stage in _OF_INSTALLERS:
                continue
            if stage in _READ_AGAIN:
                found = await self._read()
            if stage is RemovalStage.RELEASE and self.release:
                # A webhook that is still called would add a recreated Job to a group again.
                await self._wait_until_deleted(
                    "API servers to stop calling Muster's webhook", self._marking
                )
                self.unreleased += [it for it in handovers(found) if it.way is HandoverMethod.LEFT]
            steps = plan(found, release=self.release, prepare=self.prepare)
            await self._carry_out(stage, [step for step in steps if step.stage is stage])
            await self._settle(stage, found)
        return found

    async def _read(self) -> RemovalState:
        return await cluster.read(
            self.client, self.namespace, self.names, release=self.release, prepare=self.prepare
        )

    async def _carry_out(self, stage: RemovalStage, steps: Sequence[Step]) -> None:
        # Other stages one by one: a step may rely on the one before, as in the order of manifests.
        size = _AT_ONCE if stage in _MANY else 1
        for start in range(0, len(steps), size):
            batch = steps[start : start + size]
            for step in batch if stage not in _COUNTED else ():
                self.say(str(step))
            await asyncio.gather(*(self._do(step) for step in batch))
        if stage in _COUNTED and steps:
            self.say(counted_line(steps))

    async def _do(self, step: Step) -> None:
        target = step.target
        match step.action:
            case Action.DELETE:
                await delete(self.client, target)
            case Action.STOP_CONVERSION:
                ops = PatchBuilder().of_uid(target.uid)
                ops.replace("/spec/conversion", {"strategy": "None"})
                await patch(self.client, target, ops)
            case Action.RESTORE:
                await self._remaking.restore(target)
            case Action.HAND_OVER:
                assert step.handover is not None
                self.unreleased += await self._remaking.hand_over(step.handover)
            case Action.DROP_FINALIZERS:
                await drop_finalizers(self.client, target, step.names)
            case Action.DROP_ANNOTATIONS:
                ops = PatchBuilder().of_uid(target.uid)
                for name in step.names:
                    ops.remove(pointer("metadata", "annotations", name))
                await patch(self.client, target, ops)

    @property
    def _remaking(self) -> Remaking:
        return Remaking(self.client, self.namespace, self.timeout, self.names)

    async def _settle(self, stage: RemovalStage, found: RemovalState) -> None:
        match stage:
            case RemovalStage.PROCESSES:
                await self._wait_until_deleted("Muster's processes to end", self._processes)
            case RemovalStage.RIGHTS:
                await self._without_rights(found)
            case RemovalStage.DEFINITIONS:
                left = cluster.remaining_definitions
                await self._wait_until_deleted(
                    "Muster's kinds to be deleted", lambda: left(self.client)
                )
            case RemovalStage.NAMESPACE:
                await self._wait_until_deleted(
                    f"namespace {self.namespace} to be deleted", self._leaving
                )
            case _:
                return

    async def _wait_until_deleted(
        self, what: str, left: Callable[[], Awaitable[list[str]]]
    ) -> None:
        holding: list[str] = []
        try:
            async with asyncio.timeout(self.timeout):
                while holding := await left():  # noqa: ASYNC110 - the server sends no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            raise StillThereError(self.timeout, what, holding) from error

    async def _processes(self) -> list[str]:
        pods = await list_items(self.client, PODS, self.namespace)
        ours = (pod["metadata"] for pod in pods if LABEL in (pod["metadata"].get("labels") or {}))
        return [f"pod {it['name']}" for it in ours if it["labels"][LABEL] == LABEL_VALUE]

    async def _leaving(self) -> list[str]:
        """Return why the namespace still exists. One that is not being deleted stays."""
        place = await get_or_none(self.client, NAMESPACES, self.namespace)
        if not dig(place, "metadata", "deletionTimestamp"):
            return []
        conditions = listing(dig(place, "status", "conditions"))
        said = [text(dig(it, "message")) for it in conditions if dig(it, "status") == "True"]
        return said or ["its objects are being deleted"]

    async def _without_rights(self, found: RemovalState) -> None:
        """Wait until no account of Muster may bind a pod: changes of RBAC take effect late."""
        accounts = [it for it, _ in found.installed if it.resource.kind == "ServiceAccount"]
        try:
            async with asyncio.timeout(_ACCESS_SECONDS):
                for account in accounts:
                    while await self._may_bind(account):  # noqa: ASYNC110 - nor here
                        await asyncio.sleep(_POLL_SECONDS)
        # A right from outside of our manifests is not ours to remove: say so, and go on.
        except TimeoutError:
            self.say(
                "an account of Muster can bind pods with a right that is not from Muster's"
                " manifests"
            )

    async def _may_bind(self, account: Target) -> bool:
        asked = {"verb": "create", "resource": "pods", "subresource": "binding"}
        user = f"system:serviceaccount:{account.namespace}:{account.name}"
        spec = {"user": user, "resourceAttributes": {**asked, "namespace": "default"}}
        try:
            response = await self.client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        except NotFound:
            return False
        return bool(dig(response, "status", "allowed"))

    async def _marking(self) -> list[str]:
        """Return a reason while new Jobs still get a group.

        API servers notice with a delay that a webhook configuration is deleted.
        """
        pod = {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}
        meta = {"generateName": "muster-uninstall-", "annotations": {ANNOTATION_GANG_MODE: "Gang"}}
        probe = {"metadata": meta, "spec": {"suspend": True, "template": {"spec": pod}}}
        try:
            response = await self.client.create(JOBS, probe, "default", dry_run=True)
        except ServerError as error:
            return [str(error)]
        except ApiError:
            return []  # rejected by a policy of the cluster, which says nothing about the webhook
        marked = ANNOTATION_MANAGED_GROUP in annotations_of(response)
        return ["a new Job still gets a group"] if marked else []
