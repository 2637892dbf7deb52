"""Groups that pods name by Workload, template and replica key (KEP-4671).

Nobody makes such a group but this controller: when its first pod appears, from the Workload's
template. It dies with its Workload; one of a replica key also when no pod has named it for a
while.
"""

from typing import Final

import structlog

from api import names
from api.constants import EVENT_TEMPLATE_NOT_FOUND, POD_GROUP, WORKLOAD
from api.groups import WorkloadForm
from api.integration import objects
from api.integration.templates import Template, templates_of
from controllers.maker import Maker
from controllers.objects import POD_GROUPS, WORKLOADS, Group, Owner, Pod, Workload
from controllers.runtime import Controller, HeldError, NotYetError, Writer
from controllers.world import BY_WORKLOAD, World
from kube.clock import Clock
from kube.errors import NotFound
from kube.events import ObjectReference, Recorder
from kube.meta import Key

IDLE_SECONDS: Final = 60.0
"""How long a group of a replica key stays when no pod names it: a replica is often remade."""

Slot = tuple[str, WorkloadForm]
"""Namespace, and the words by which pods name a group."""

_log = structlog.get_logger()


class Implicit:
    """The controller of implicit groups."""

    def __init__(
        self, world: World, writer: Writer, maker: Maker, recorder: Recorder, clock: Clock
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        self.controller: Controller[Slot] = Controller("implicit", self.reconcile, clock)
        self._world = world
        self._writer = writer
        self._maker = maker
        self._recorder = recorder
        self._clock = clock
        self._idle: dict[Slot, float] = {}
        self._told: dict[Slot, str] = {}
        world.pods.subscribe(self._on_pod)
        world.workloads.subscribe(self._on_workload)
        world.pod_groups.subscribe(self._on_group)

    def resync(self) -> None:
        """Queue every group that pods name so, and every one that was made so."""
        for pod in self._world.pods.values():
            self._on_pod(None, pod)
        for group in self._world.pod_groups.values():
            self._queue_group(group)

    async def reconcile(self, slot: Slot) -> None:
        """Make one group, or remove it once it is idle. Raises NotYetError, kube errors."""
        namespace, form = slot
        if not self._world.implicit_pods(namespace, form):
            await self._retire(slot)
            return
        self._idle.pop(slot, None)
        workload = self._world.workloads.get(namespace, form.name)
        if workload is None or workload.metadata.deletion_timestamp is not None:
            return  # its event brings the pods' group back
        try:
            await self._make(workload, form)
        except HeldError as fault:
            self._tell(slot, workload, fault)
        else:
            self._told.pop(slot, None)

    async def _make(self, workload: Workload, form: WorkloadForm) -> None:
        template = _template(workload, form)
        meta = workload.metadata
        owner = objects.Owner(WORKLOAD, meta.namespace, meta.name, meta.uid)
        name = names.implicit_pod_group(*form)
        group = objects.group_object(POD_GROUP, owner, name, meta.name, dict(template.said))
        await self._maker.ensure_groups(_as_owner(workload), [group])

    async def _retire(self, slot: Slot) -> None:
        namespace, form = slot
        group = self._world.pod_groups.get(namespace, names.implicit_pod_group(*form))
        mine = group is not None and _form_of(group) == form and form.replica_key
        if group is None or not mine or group.metadata.deletion_timestamp is not None:
            self._idle.pop(slot, None)
            return
        since = self._idle.setdefault(slot, self._clock.monotonic())
        left = since + IDLE_SECONDS - self._clock.monotonic()
        if left > 0:
            raise NotYetError("a pod may name the group again", left)
        meta = group.metadata
        try:
            await self._writer.delete(POD_GROUPS, meta.name, namespace, uid=meta.uid)
        except NotFound:
            return

    def _tell(self, slot: Slot, workload: Workload, fault: HeldError) -> None:
        """One event on the Workload, which itself is the user's and stays as it is."""
        if self._told.get(slot) == str(fault):
            return
        self._told[slot] = str(fault)
        _log.warning("implicit group not made", namespace=slot[0], problem=str(fault))
        reference = ObjectReference.of(WORKLOADS, workload.metadata)
        self._recorder.event(reference, "Warning", fault.reason, str(fault))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """It appears, ends or goes: how it names its group never changes."""
        pod = new or old
        if pod is None or pod.implicit is None:
            return
        if old is None or new is None or not new.active:
            self.controller.queue.add((pod.metadata.namespace, pod.implicit))

    def _on_workload(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._queue_pods_of(new.metadata.key)

    def _on_group(self, old: Group | None, new: Group | None) -> None:
        if new is None and old is not None:
            self._queue_group(old)
            for key in self._maker.gone((POD_GROUPS.kind, old.metadata.key), WORKLOADS):
                self._queue_pods_of(key)
        elif old is not None and new is not None and old.policy != new.policy:
            self._queue_group(new)

    def _queue_pods_of(self, workload: Key) -> None:
        for pod in self._world.pods.by_index(BY_WORKLOAD, workload):
            if pod.implicit is not None:
                self.controller.queue.add((workload[0], pod.implicit))

    def _queue_group(self, group: Group) -> None:
        form = _form_of(group)
        if form is not None:
            self.controller.queue.add((group.metadata.namespace, form))


def _template(workload: Workload, form: WorkloadForm) -> Template:
    for template in templates_of(workload.as_object()):
        if (template.kind, template.name, template.parent) == (POD_GROUP.kind, form.pod_group, ""):
            return template
    raise HeldError(
        EVENT_TEMPLATE_NOT_FOUND,
        f"no template {form.pod_group} in spec.podGroupTemplates, which pods name by label: they "
        "wait for one",
    )


def _form_of(group: Group) -> WorkloadForm | None:
    """By which words pods name a group that was made here; None for any other group."""
    controller = group.metadata.controller
    if controller is None or controller.kind != WORKLOAD.kind or group.template is None:
        return None
    workload, template = group.template
    stem = names.implicit_pod_group(workload, template)
    key = group.metadata.name.removeprefix(stem).removeprefix("-")
    return WorkloadForm(workload, template, key)


def _as_owner(workload: Workload) -> Owner:
    return Owner(
        resource=WORKLOADS,
        metadata=workload.metadata,
        spec=workload.spec,
        suspended=False,
        finished=False,
        succeeded=0,
    )
