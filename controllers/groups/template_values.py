"""Values for PodGroups without a policy, from a template that appears later (KEP-5832).

The webhook does this at admission if the template exists. This controller does it for templates
that come later. It writes only the template's values: admission adds the defaults and the priority.
"""

from functools import partial

from api.inherit import inherited_values
from api.integration.common.templates import find_template
from controllers.cache.informers import BY_TEMPLATE, Caches
from controllers.cache.objects import POD_GROUPS, Group, Workload
from controllers.runtime.controller import Controller, Writer, queue_all
from kube.base.clock import Clock
from kube.client.meta import Key
from kube.client.patch import PatchBuilder, pointer


class TemplateValues:
    """The controller that completes PodGroups; its keys are those of PodGroups."""

    def __init__(self, caches: Caches, writer: Writer, clock: Clock) -> None:
        self.controller: Controller[Key] = Controller("template-values", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        caches.pod_groups.subscribe(self._on_group)
        caches.workloads.subscribe(self._on_workload)

    async def resync(self) -> None:
        """Queue all PodGroups without a policy."""
        await queue_all(self._caches.pod_groups.values(), partial(self._on_group, None))

    async def reconcile(self, key: Key) -> None:
        """Complete one PodGroup if its template exists. Raises kube errors."""
        group = self._caches.pod_groups.get(*key)
        if group is None or group.template is None:
            return
        workload = self._caches.workloads.get(key[0], group.template[0])
        template = find_template(workload.as_object(), group.template[1]) if workload else None
        values = inherited_values(group.spec_object(), template.fields) if template else {}
        # A template without a policy completes nothing: the group would still wait for one.
        if "schedulingPolicy" not in values:
            return
        ops = PatchBuilder().of_uid(group.metadata.uid)
        for field, value in values.items():
            ops.add(pointer("spec", field), value)
        await self._writer.patch(POD_GROUPS, key[1], ops, key[0])

    def _on_group(self, _old: Group | None, new: Group | None) -> None:
        if new is not None and _waits(new):
            self.controller.queue.add(new.metadata.key)

    def _on_workload(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            for group in self._caches.pod_groups.by_index(BY_TEMPLATE, new.metadata.key):
                self.controller.queue.add(group.metadata.key)


def _waits(group: Group) -> bool:
    return not group.policy and group.template is not None
