"""The writer of the annotation that states what an owner of groups waits for.

An owner belongs to its user, and Muster may write nothing else on it. On StatefulSets and
Deployments the request itself ensures that: it patches the status, which cannot change the spec,
and for which webhooks of other projects for the object are not called. In addition, a policy
rejects any other change there (`manifests/base/controller-policy.yaml`), and on TrainJobs, whose
status cannot carry an annotation. The policy sees only the result of the last webhook. If another
project's webhook changes a TrainJob in each update, the annotation is rejected, and an event
reports it.
"""

from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_WAITING_FOR,
    EVENT_WAIT_NOT_WRITTEN,
    LABEL_POD_GROUP,
)
from controllers.runtime.controller import METADATA_LIST, Writer
from kube.base.clock import Clock
from kube.base.errors import Forbidden, Invalid, NotFound
from kube.client.meta import ObjectMeta, decode_partials
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Resource
from kube.events.events import ObjectReference, Recorder

BY_STATUS: Final = (STATEFUL_SETS, DEPLOYMENTS)
"""Kinds whose API server accepts annotations in a request for the status."""

COPIED: Final = (DEPLOYMENTS,)
"""Kinds whose controller copies annotations to another object and never removes them there.

The Deployment controller copies them to the current ReplicaSet. So the annotation stays on a
Deployment, empty while nothing waits, and the current ReplicaSet follows. Each write clears it on
older ReplicaSets, to which no other controller writes.
"""

_REVISION: Final = "deployment.kubernetes.io/revision"

# An administrator has to change a webhook or a policy first, and no event reports that.
REFUSED_SECONDS: Final = 300.0
"""Seconds until the next attempt after a rejection."""

_log = structlog.get_logger()


class _Rejection(NamedTuple):
    reason: str
    at: float


class WaitingForAnnotation:
    """The writer of the annotation, which reports a rejection."""

    def __init__(self, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._refused: dict[str, _Rejection] = {}

    async def write(self, resource: Resource, meta: ObjectMeta, text: str) -> bool:
        """Set the annotation, or clear it if there is no text; return False if it was rejected.

        A rejected one is not sent again for `REFUSED_SECONDS`. Raises kube errors.
        """
        refused = self._refused.get(meta.uid)
        if refused is not None and self._clock.monotonic() - refused.at < REFUSED_SECONDS:
            return False
        status = "status" if resource in BY_STATUS else None
        ops = waiting_for_ops(meta, text, stays=resource in COPIED)
        try:
            await self._writer.patch(resource, meta.name, ops, meta.namespace, subresource=status)
            if resource in COPIED:
                await self._clear_copies(meta, text)
        except (Forbidden, Invalid) as error:
            if isinstance(error, Invalid) and error.patch_failed:
                raise
            self._report(resource, meta, text, error.message)
            return False
        self._refused.pop(meta.uid, None)
        return True

    def forget(self, uid: str) -> None:
        """Forget an object that is deleted."""
        self._refused.pop(uid, None)

    async def _clear_copies(self, meta: ObjectMeta, text: str) -> None:
        """Clear the annotation on ReplicaSets that state anything else.

        The current ReplicaSet follows by itself. Without a text it is cleared, too.
        """
        # Found by the label of the group, as ReplicaSets are not watched.
        of_group = f"{LABEL_POD_GROUP}={meta.annotations.get(ANNOTATION_MANAGED_GROUP, '')}"
        path = REPLICA_SETS.path(meta.namespace)
        found = await self._writer.read(path, METADATA_LIST, meta.namespace, labelSelector=of_group)
        for copy in (it.metadata for it in decode_partials(found).items):
            notes = copy.annotations
            by_it = copy.controller is not None and copy.controller.uid == meta.uid
            # Without a text the current one is cleared, too: it may be an older one by now.
            follows = notes.get(_REVISION) == meta.annotations.get(_REVISION) and text
            if by_it and not follows and notes.get(ANNOTATION_WAITING_FOR, "") not in ("", text):
                ops = waiting_for_ops(copy, "", stays=False)
                with suppress(NotFound):
                    await self._writer.patch(
                        REPLICA_SETS, copy.name, ops, copy.namespace, subresource="status"
                    )

    def _report(self, resource: Resource, meta: ObjectMeta, text: str, reason: str) -> None:
        """Report a rejection, once for each reason."""
        before = self._refused.get(meta.uid)
        self._refused[meta.uid] = _Rejection(reason, self._clock.monotonic())
        # The numbers in the text change all the time, and no user can act on them.
        if before is not None and before.reason == reason:
            return
        said = f"failed to write the annotation waiting-for: {reason}"
        what = f"{said}. Its text would be: {text}" if text else f"{said}. It is out of date"
        reference = ObjectReference.of(resource, meta)
        self._recorder.event(reference, "Warning", EVENT_WAIT_NOT_WRITTEN, what)
        about = {"kind": resource.kind, "namespace": meta.namespace, "name": meta.name}
        _log.warning("failed to write the waiting-for annotation", **about, error=reason)


def waiting_for_ops(meta: ObjectMeta, text: str, *, stays: bool) -> PatchBuilder:
    """Create the patch that sets the annotation, or removes it without a text unless it `stays`."""
    path = pointer("metadata", "annotations", ANNOTATION_WAITING_FOR)
    ops = PatchBuilder().of_uid(meta.uid)
    if meta.annotations or not text:
        ops.add(path, text)
    else:
        # The patch creates the complete map. Fail if another client has created it in the meantime.
        ops.at_version(meta.resource_version)
        ops.add("/metadata/annotations", {ANNOTATION_WAITING_FOR: text})
    if not (text or stays):
        ops.remove(path)  # the add above makes sure that it exists, even if the cache is behind
    return ops
