"""The numbers of equal replicas on each node, over which kube-scheduler spreads by default.

Replicas are the pods of one ReplicaSet, ReplicationController or StatefulSet, by its UID, or else
the pods that all Services of a pod select. It corresponds to helper.DefaultSelector, which also
requires a controlled pod's Services to select the others. A controller's pods are counted as they
come and go. Those of Services are counted once a waiting pod needs the number, as few do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import PodInfo

MOST_SERVICES: Final = 64
"""Services with a label in common that are compared with one pod. Of more, the first count."""

MOST_COUNTED: Final = 64
"""Different selectors of Services in one namespace by which pods spread; further ones do not."""

ServiceSelector = tuple[tuple[str, str], ...]
"""Labels of a Service's pods, sorted."""

ServiceKey = tuple[str, str]
"""(namespace, name) of a Service."""

Replicas = str | tuple[str, ServiceSelector]
"""UID of a controller, or the namespace and merged selector of Services."""

_Counts = dict[str, int]


class ReplicaCounts:
    """Counts of replicas by node name, and the selectors of Services.

    `pods_in` returns all pods of a namespace.
    """

    def __init__(self, pods_in: Callable[[str], Iterable[Pod]]) -> None:
        self._pods_in = pods_in
        self._services: dict[ServiceKey, ServiceSelector] = {}
        self._by_label: dict[tuple[str, str, str], dict[ServiceKey, ServiceSelector]] = {}
        self._of_controller: dict[str, _Counts] = {}
        self._of_services: dict[str, dict[ServiceSelector, _Counts]] = {}

    def __len__(self) -> int:
        """Return the number of Services, and of counts by node."""
        by_services = sum(map(len, self._of_services.values()))
        return len(self._services) + len(self._of_controller) + by_services

    @property
    def services(self) -> Mapping[ServiceKey, ServiceSelector]:
        """The selectors of all Services that have one."""
        return self._services

    def set_service(self, key: ServiceKey, selector: Mapping[str, str]) -> None:
        """Add or update a Service. As in kube-scheduler, an empty selector has no pods."""
        labels = tuple(sorted(selector.items()))
        if self._services.get(key, ()) == labels:
            return
        self.remove_service(key)
        if labels:
            self._services[key] = labels
            # Filed under one label, so that a pod is not compared with all of the namespace.
            self._by_label.setdefault((key[0], *labels[0]), {})[key] = labels

    def remove_service(self, key: ServiceKey) -> None:
        labels = self._services.pop(key, None)
        if labels is None:
            return
        place = (key[0], *labels[0])
        del self._by_label[place][key]
        if not self._by_label[place]:
            del self._by_label[place]
        # Counts of selectors that no pod has any more would remain for ever.
        self._of_services.pop(key[0], None)

    def add(self, pod: Pod, count: int = 1) -> None:
        """Count a pod, or with -1 no longer, if it has a node. Terminating pods do not count."""
        info = pod.info
        # As in kube-scheduler: the pod that replaces it may get the same node.
        if not pod.node or info.terminating:
            return
        if info.controller:
            _add(self._of_controller, info.controller, pod.node, count)
        counted = self._of_services.get(info.namespace)
        for selector, counts in counted.items() if counted else ():
            if _selects(selector, info):
                _add_to(counts, pod.node, count)

    def recount(self, pods: Iterable[Pod]) -> None:
        """Replace all counts by those of these pods, after a change to one of them failed."""
        self._of_controller.clear()
        self._of_services.clear()
        for pod in pods:
            self.add(pod)

    def replicas_of(self, info: PodInfo) -> Replicas | None:
        """Return the replicas that a pod is one of; None if it has no controller and no Service."""
        if info.controller:
            return info.controller
        merged = dict[str, str]()
        for label in info.labels.items():
            alike = self._by_label.get((info.namespace, *label), {})
            for selector, _ in zip(alike.values(), range(MOST_SERVICES), strict=False):
                if _selects(selector, info):
                    merged.update(selector)
        return (info.namespace, tuple(sorted(merged.items()))) if merged else None

    def on_nodes(self, replicas: Replicas) -> Mapping[str, int] | None:
        """Return the number of replicas by node name; None if its namespace has too many kinds."""
        if isinstance(replicas, str):
            return self._of_controller.get(replicas, {})
        namespace, selector = replicas
        counted = self._of_services.setdefault(namespace, {})
        if selector not in counted:
            if len(counted) >= MOST_COUNTED:
                return None
            counts = counted[selector] = _Counts()
            for pod in self._pods_in(namespace):
                if pod.node and not pod.info.terminating and _selects(selector, pod.info):
                    _add_to(counts, pod.node, 1)
        return counted[selector]

    @staticmethod
    def include(replicas: Replicas, info: PodInfo) -> bool:
        """Return True if the pod is one of these replicas."""
        if isinstance(replicas, str):
            return info.controller == replicas
        return info.namespace == replicas[0] and _selects(replicas[1], info)


def _selects(selector: ServiceSelector, info: PodInfo) -> bool:
    labels = info.labels
    return all(labels.get(key) == value for key, value in selector)


def _add(counts: dict[str, _Counts], key: str, node: str, count: int) -> None:
    of_key = counts.setdefault(key, {})
    _add_to(of_key, node, count)
    if not of_key:
        del counts[key]


def _add_to(counts: _Counts, node: str, count: int) -> None:
    total = counts.get(node, 0) + count
    if total:
        counts[node] = total
    else:
        counts.pop(node, None)
