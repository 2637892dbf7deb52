"""Which device class stands for which extended resource."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.nodes.resource_table import ResourceTable
from scheduler.core.values.devices import DeviceClassInfo
from scheduler.core.values.extended_devices import may_be_mapped


class ExtendedResources:
    """Updated with the device classes. Of several for one resource the newest counts.

    Of two that are equally old, it is the one whose name comes first, as in kube-scheduler.
    """

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._class_of: dict[str, DeviceClassInfo] = {}
        self._classes: dict[str, dict[str, DeviceClassInfo]] = {}

    def class_of(self, resource: str) -> str | None:
        """The name of the class; None if there is none."""
        found = self._class_of.get(resource)
        return None if found is None else found.name

    def classes_of(self, resources: list[str]) -> Mapping[str, str]:
        """The names of the classes of these resources, as far as there are any."""
        of = self._class_of
        return {resource: of[resource].name for resource in resources if resource in of}

    def set_class(self, before: DeviceClassInfo | None, now: DeviceClassInfo | None) -> None:
        """A class changed, is new, or is gone."""
        if before is not None:
            for resource in before.resources:
                self._remove(resource, before.name)
        if now is not None:
            for resource in filter(may_be_mapped, now.resources):
                self._add(resource, now)

    def _add(self, resource: str, info: DeviceClassInfo) -> None:
        self._classes.setdefault(resource, {})[info.name] = info
        current = self._class_of.get(resource)
        if current is None or _comes_before(info, current):
            self._class_of[resource] = info
        if current is None:
            self._resources.set_by_devices(resource, by_devices=True)

    def _remove(self, resource: str, name: str) -> None:
        classes = self._classes.get(resource, {})
        if classes.pop(name, None) is None or self._class_of[resource].name != name:
            return
        if not classes:
            del self._classes[resource], self._class_of[resource]
            self._resources.set_by_devices(resource, by_devices=False)
            return
        newest, *others = classes.values()
        for each in others:
            newest = each if _comes_before(each, newest) else newest
        self._class_of[resource] = newest


def _comes_before(one: DeviceClassInfo, other: DeviceClassInfo) -> bool:
    if one.created != other.created:
        return one.created > other.created
    return one.name < other.name
