"""Muster's PodGroups; for native groups that Muster schedules, use `native` with its name."""

from conformance.adapters.base import labels
from conformance.adapters.native import Native
from conformance.values.history import Json
from conformance.values.scenario import Gang


class Muster(Native):
    """The fields are those of the native groups, in a group of its own."""

    scheduler = "muster-scheduler"
    api = "scheduling.muster.dev/v1alpha3"

    def join(self, pod: Json, gang: Gang) -> None:
        labels(pod)["scheduling.muster.dev/pod-group"] = gang.name
