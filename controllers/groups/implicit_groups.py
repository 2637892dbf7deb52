"""Groups that pods name by Workload, template and replica key (KEP-4671).

Only this controller creates them, from the Workload's template when the first pod appears. They are
deleted with their Workload. A group of a replica key is also deleted once no pod has named it for a
while.
"""

from functools import partial
from typing import Final

import structlog

from api import names, ownership
from api.constants import EVENT_TEMPLATE_NOT_FOUND, LABEL_REPLICA_KEY, POD_GROUP, WORKLOAD
from api.groups import WorkloadForm
from api.integration.common import objects
from api.integration.common.templates import WorkloadTemplate, find_root_template
from api.membership import form_of
from controllers.cache.informers import BY_WORKLOAD, Caches
from controllers.cache.objects import POD_GROUPS, WORKLOADS, Group, Owner, Pod, Workload
from controllers.groups.group_writer import GroupWriter
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    RejectedError,
    RequeueError,
    Writer,
    queue_all,
)
from kube.base.clock import Clock
from kube.base.errors import NotFound
from kube.client.meta import Key
from kube.events.events import ObjectReference, Recorder

IDLE_SECONDS: Final = 60.0
"""Seconds for which a group of a replica key is kept without pods: replicas are often recreated."""

ImplicitKey = tuple[str, WorkloadForm]
"""Namespace of a group, and the form in which pods name it."""

_log = structlog.get_logger()


class ImplicitGroups:
    """The controller of implicit groups."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        group_writer: GroupWriter,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self.controller: Controller[ImplicitKey] = Controller("implicit", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        self._group_writer = group_writer
        self._recorder = recorder
        self._clock = clock
        self._idle: dict[ImplicitKey, float] = {}
        self._reported: dict[ImplicitKey, str] = {}
        caches.pods.subscribe(self._on_pod)
        caches.workloads.subscribe(self._on_workload)
        caches.pod_groups.subscribe(self._on_group)

    async def resync(self) -> None:
        """Queue all implicit groups that pods name, and all that exist."""
        await queue_all(self._caches.pods.values(), partial(self._on_pod, None))
        await queue_all(self._caches.pod_groups.values(), self._queue_group)

    async def reconcile(self, key: ImplicitKey) -> None:
        """Create one group, or delete it once it is idle. Raises RequeueError, kube errors."""
        namespace, form = key
        if not self._caches.implicit_pods(namespace, form):
            self._reported.pop(key, None)
            await self._delete_idle(key)
            return
        self._idle.pop(key, None)
        workload = self._caches.workloads.get(namespace, form.name)
        if workload is None or workload.metadata.deletion_timestamp is not None:
            return  # its event queues the pods' group again
        try:
            await self._create(workload, form)
        except BlockedError as fault:
            self._report(key, workload, fault)
            # A user must resolve other faults, and an event follows. No event reports the end of a
            # rejection by the API server, so this key comes back after its back-off.
            if isinstance(fault, RejectedError):
                raise fault.error from fault
        else:
            self._reported.pop(key, None)

    async def _create(self, workload: Workload, form: WorkloadForm) -> None:
        template = _template(workload, form)
        meta = workload.metadata
        owner = ownership.Owner(WORKLOAD, meta.namespace, meta.name, meta.uid)
        name = names.implicit_pod_group(*form)
        group = objects.group_object(POD_GROUP, owner, name, meta.name, dict(template.fields))
        if form.replica_key:
            # The name ends in a hash, so it does not state the key.
            group["metadata"]["labels"][LABEL_REPLICA_KEY] = form.replica_key
        generated_for = Owner(WORKLOADS, meta, workload.spec)
        await self._group_writer.ensure_groups(generated_for, [group])

    async def _delete_idle(self, key: ImplicitKey) -> None:
        namespace, form = key
        group = self._caches.pod_group(namespace, names.implicit_pod_group(*form))
        # A group without a replica key is kept: it lives as long as its Workload.
        mine = group is not None and _form_of(group) == form and form.replica_key
        if group is None or not mine or group.metadata.deletion_timestamp is not None:
            self._idle.pop(key, None)
            return
        since = self._idle.setdefault(key, self._clock.monotonic())
        left = since + IDLE_SECONDS - self._clock.monotonic()
        if left > 0:
            raise RequeueError("a pod may name the group again", left)
        meta = group.metadata
        try:
            await self._writer.delete(POD_GROUPS, meta.name, namespace, uid=meta.uid)
        except NotFound:
            return

    def _report(self, key: ImplicitKey, workload: Workload, fault: BlockedError) -> None:
        """Record an event on the Workload, which belongs to the user and is not changed."""
        if self._reported.get(key) == str(fault):
            return
        self._reported[key] = str(fault)
        _log.warning("failed to create an implicit group", namespace=key[0], error=str(fault))
        reference = ObjectReference.of(WORKLOADS, workload.metadata)
        self._recorder.event(reference, "Warning", fault.reason, str(fault))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the group of a pod that appears, finishes or is deleted."""
        pod = new or old
        if pod is None or pod.implicit is None:
            return
        # Other changes do not matter: a pod never changes how it names its group.
        if old is None or new is None or not new.active:
            self.controller.queue.add((pod.metadata.namespace, pod.implicit))

    def _on_workload(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._queue_pods_of(new.metadata.key)

    def _on_group(self, old: Group | None, new: Group | None) -> None:
        if new is None and old is not None:
            self._queue_group(old)
            for key in self._group_writer.on_object_deleted(POD_GROUPS, old.metadata, WORKLOADS):
                self._queue_pods_of(key)
        elif old is not None and new is not None and old.policy != new.policy:
            self._queue_group(new)

    def _queue_pods_of(self, workload: Key) -> None:
        for pod in self._caches.pods.by_index(BY_WORKLOAD, workload):
            if pod.implicit is not None:
                self.controller.queue.add((workload[0], pod.implicit))

    def _queue_group(self, group: Group) -> None:
        form = _form_of(group)
        if form is not None:
            self.controller.queue.add((group.metadata.namespace, form))


def _template(workload: Workload, form: WorkloadForm) -> WorkloadTemplate:
    template = find_root_template(workload.as_object(), form.pod_group)
    if template is not None:
        return template
    raise BlockedError(
        EVENT_TEMPLATE_NOT_FOUND,
        f"no template {form.pod_group} in spec.podGroupTemplates, but pods name it in their "
        "labels and wait for it",
    )


def _form_of(group: Group) -> WorkloadForm | None:
    """Return the form in which pods name an implicit group; None for any other group."""
    controller = group.metadata.controller
    if controller is None or controller.kind != WORKLOAD.kind or group.template is None:
        return None
    return form_of(group.metadata, group.metadata.name, *group.template)
