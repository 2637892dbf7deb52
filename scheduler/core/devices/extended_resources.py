"""Device classes that provide extended resources (KEP-5004)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.nodes.resource_table import ResourceTable
from scheduler.core.values.devices import DeviceClassInfo
from scheduler.core.values.extended_devices import may_be_mapped


class ExtendedResources:
    """Device class of each extended resource, updated with the device classes.

    If several classes name one resource, the newest wins, and of equally old ones the first by
    name, as in kube-scheduler.
    """

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._class_of: dict[str, DeviceClassInfo] = {}
        self._classes: dict[str, dict[str, DeviceClassInfo]] = {}

    def class_of(self, resource: str) -> str | None:
        """Return the name of the resource's class, or None if no class provides it."""
        found = self._class_of.get(resource)
        return None if found is None else found.name

    def classes_of(self, resources: list[str]) -> Mapping[str, str]:
        """Return the class names of those resources that a class provides."""
        of = self._class_of
        return {resource: of[resource].name for resource in resources if resource in of}

    def set_class(self, before: DeviceClassInfo | None, now: DeviceClassInfo | None) -> None:
        """Replace, add or remove a class: `before` or `now` is None if it does not exist."""
        if before is not None:
            for resource in before.resources:
                self._remove(resource, before.name)
        if now is not None:
            # A class that names a resource such as cpu must not take it over.
            for resource in filter(may_be_mapped, now.resources):
                self._add(resource, now)

    def _add(self, resource: str, info: DeviceClassInfo) -> None:
        self._classes.setdefault(resource, {})[info.name] = info
        current = self._class_of.get(resource)
        if current is None or _comes_before(info, current):
            self._class_of[resource] = info
        # The resource table lists such a resource on nodes that lack it, so that requests for it
        # pass the resource checks and the devices decide.
        if current is None:
            self._resources.set_by_devices(resource, by_devices=True)

    def _remove(self, resource: str, name: str) -> None:
        classes = self._classes.get(resource, {})
        # If another class provides the resource, nothing changes.
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
