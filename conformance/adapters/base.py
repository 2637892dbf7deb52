"""The interface of an adapter: how one scheduler's API states a gang."""

from typing import ClassVar, NamedTuple

from conformance.values.history import Json
from conformance.values.scenario import Gang, Need


class Manifest(NamedTuple):
    """An object and where it is created; `api` is its apiVersion."""

    api: str
    plural: str
    body: Json
    namespaced: bool = True

    def path(self, namespace: str) -> str:
        """Return the path of its collection."""
        prefix = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        return f"{prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced else (
            f"{prefix}/{self.plural}"
        )  # fmt: skip


class Adapter:
    """One API. An adapter has no state and sends no request."""

    scheduler: ClassVar[str]
    """The schedulerName of pods, unless the user gives another."""

    offers: ClassVar[frozenset[Need]]
    """What the API can state beyond a gang whose minimum is all of its members."""

    def setup(self) -> list[Manifest]:
        """Return objects that a namespace and the cluster need before the first gang."""
        return []

    def group(self, gang: Gang) -> list[Manifest]:
        """Return the objects that state the gang; the first has its status."""
        raise NotImplementedError

    def join(self, pod: Json, gang: Gang) -> None:
        """Make the pod a member of the gang."""
        raise NotImplementedError

    def adjust(self, pod: Json) -> None:
        """Add what the API requires of each pod, with a gang or without one."""

    def is_scheduled(self, group: Json) -> bool | None:
        """Return what the group's status reports, None if the API has no such status."""
        return None


def class_name(priority: int) -> str:
    """Return the name of the PriorityClass that the kit creates for this value."""
    return f"gang-conformance-{priority}"


def manifest(api: str, plural: str, kind: str, name: str, spec: Json, **more: bool) -> Manifest:
    """Return the manifest of an object that has only a name and a spec."""
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Manifest(api, plural, body, **more)


def labels(pod: Json) -> dict[str, str]:
    """Return the labels of a pod, to be changed in place."""
    found: dict[str, str] = pod["metadata"].setdefault("labels", {})
    return found


def annotations(pod: Json) -> dict[str, str]:
    """Return the annotations of a pod, to be changed in place."""
    found: dict[str, str] = pod["metadata"].setdefault("annotations", {})
    return found
