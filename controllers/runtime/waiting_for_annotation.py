"""The annotation that tells users what an owner of groups waits for: how it is written.

An owner belongs to its user, and Muster may write nothing else on it. On StatefulSets and
Deployments that is ensured by the request itself: it is one for the status, by which no spec can be
changed, and in which webhooks of others for the object change nothing either. A policy refuses all
but this annotation there (`manifests/base/controller-policy.yaml`), and on TrainJobs, whose status
cannot carry one. It sees only what the last webhook left: where others change a TrainJob in each
update, the annotation is refused, and an event says that.
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
"""Their API server keeps the annotations of a request for the status."""

COPIED: Final = (DEPLOYMENTS,)
"""The Deployment controller copies annotations to the current ReplicaSet and takes none away there.

So the annotation stays on a Deployment, empty while nothing waits, and the current ReplicaSet
follows. Each write clears it on the older ones, which nobody else writes any more.
"""

_REVISION: Final = "deployment.kubernetes.io/revision"

REFUSED_SECONDS: Final = 300.0
"""When to ask again for what was refused: somebody has to change something first."""

_log = structlog.get_logger()


class _Refused(NamedTuple):
    reason: str
    at: float


class WaitingForNote:
    """Writes the annotation, and says where that is refused."""

    def __init__(self, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        """`recorder` takes the events."""
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._refused: dict[str, _Refused] = {}

    async def write(self, resource: Resource, meta: ObjectMeta, text: str) -> bool:
        """Set the annotation, or clear it where there is no text; False if that was refused.

        What was refused is not sent again for `REFUSED_SECONDS`. Raises kube errors.
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
            self._say(resource, meta, text, error.message)
            return False
        self._refused.pop(meta.uid, None)
        return True

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._refused.pop(uid, None)

    async def _clear_copies(self, meta: ObjectMeta, text: str) -> None:
        """Clear the annotation on ReplicaSets that say anything else.

        The current one follows by itself. Without a text it is cleared, too: it may have become an
        older one by now.
        """
        of_group = f"{LABEL_POD_GROUP}={meta.annotations.get(ANNOTATION_MANAGED_GROUP, '')}"
        path = REPLICA_SETS.path(meta.namespace)
        found = await self._writer.read(path, METADATA_LIST, meta.namespace, labelSelector=of_group)
        for copy in (it.metadata for it in decode_partials(found).items):
            notes = copy.annotations
            by_it = copy.controller is not None and copy.controller.uid == meta.uid
            follows = notes.get(_REVISION) == meta.annotations.get(_REVISION) and text
            if by_it and not follows and notes.get(ANNOTATION_WAITING_FOR, "") not in ("", text):
                ops = waiting_for_ops(copy, "", stays=False)
                with suppress(NotFound):
                    await self._writer.patch(
                        REPLICA_SETS, copy.name, ops, copy.namespace, subresource="status"
                    )

    def _say(self, resource: Resource, meta: ObjectMeta, text: str, reason: str) -> None:
        """Once for each reason: numbers in the text change, and nobody can act on these."""
        before = self._refused.get(meta.uid)
        self._refused[meta.uid] = _Refused(reason, self._clock.monotonic())
        if before is not None and before.reason == reason:
            return
        said = f"the annotation waiting-for cannot be written here: {reason}"
        what = f"{said}. It would say: {text}" if text else f"{said}. It is out of date"
        reference = ObjectReference.of(resource, meta)
        self._recorder.event(reference, "Warning", EVENT_WAIT_NOT_WRITTEN, what)
        about = {"kind": resource.kind, "namespace": meta.namespace, "name": meta.name}
        _log.warning("failed to write the waiting-for annotation", **about, error=reason)


def waiting_for_ops(meta: ObjectMeta, text: str, *, stays: bool) -> PatchBuilder:
    """What sets the annotation `waiting-for`; without a text it is removed, unless it `stays`."""
    path = pointer("metadata", "annotations", ANNOTATION_WAITING_FOR)
    ops = PatchBuilder().of_uid(meta.uid)
    if meta.annotations or not text:
        ops.add(path, text)
    else:
        # The whole map is created: nobody else may have created it meanwhile.
        ops.at_version(meta.resource_version)
        ops.add("/metadata/annotations", {ANNOTATION_WAITING_FOR: text})
    if not (text or stays):
        ops.remove(path)  # the add above makes sure that it exists, even if the cache is behind
    return ops
