"""A cluster in which devices provide extended resources, and nodes may offer these themselves."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.devices.kinds import SelectorEvaluator
from scheduler.core.values.extended_devices import ContainerDevices
from scheduler.core.values.model import NodeInfo, PodInfo, Requirements
from tests.scheduler.devices.builders import CLASS, evaluate
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.state_builder import requests

GPU, NIC = "example.com/gpu", "example.com/nic"


class MappedCluster(DevicePreemption):
    """A cluster whose class of devices provides GPU, unless other resources are given."""

    def __init__(self, *resources: str, evaluate: SelectorEvaluator = evaluate) -> None:
        super().__init__(evaluate)
        self.map(*(resources or (GPU,)))

    def map(self, *resources: str, created: str = "", name: str = CLASS) -> None:
        self.table.set_class(
            replace(self.table.classes[CLASS], name=name, resources=resources, created=created)
        )

    def wants(
        self,
        group: str | None = None,
        count: int = 1,
        more: Mapping[str, int] | None = None,
        *,
        priority: int = 0,
    ) -> PodInfo:
        """Add a pending pod whose container requests that many GPUs, and more resources."""
        name = f"p{self._serial + 1:05}"
        amounts = dict(requests(1)) | ({GPU: count} if count else {}) | dict(more or {})
        mapped = sorted((key, amount) for key, amount in amounts.items() if "/" in key)
        of = tuple((key, at + 1, amount) for at, (key, amount) in enumerate(mapped))
        container = ContainerDevices("c", 0, ends=False, amounts=of)
        asked = Requirements(tuple(sorted(amounts.items())), extended=(container,))
        claim = ("ns", f"{name}-extended-resources-x")
        return self.pod(
            group, name=name, requirements=asked, device_claims=(claim,), priority=priority
        )

    def offers(self, name: str, *, cpu: int = 64, **more: int) -> None:
        allocatable = {"cpu": cpu * 1000, "memory": 1 << 36, "pods": 110, **more}
        self.state.set_node(NodeInfo(name, allocatable))
