"""A cluster whose running pods use devices that pods of higher priority request."""

from dataclasses import replace

import numpy as np

from scheduler.core.devices.results import NODE_NAME
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.devices import AllocatedDevice, Allocation, DeviceClaimInfo
from scheduler.core.values.model import ClaimKey, Expression, NodeTerm, PodInfo, Requirements
from tests.scheduler.devices.builders import DRIVER, ask, gpu
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests


class DevicePreemption(DeviceCluster, PreemptionBuilder):
    def allocated(
        self, name: str, node: str, *devices: str, pool: str = "", local: bool = True
    ) -> ClaimKey:
        """Add a claim that has these devices of the node's pool, without consumers."""
        only = (NodeTerm((), (Expression(NODE_NAME, "In", (node,)),)),)
        found = tuple(AllocatedDevice("gpu", (DRIVER, pool or node, each)) for each in devices)
        key = ("ns", name)
        wanted = ask(gpu(max(1, len(devices))))
        allocation = Allocation(found, nodes=only if local else None)
        self.table.set_claim(DeviceClaimInfo(key, f"uid-{name}", wanted, allocation=allocation))
        return key

    def reserve(self, key: ClaimKey, *pods: PodInfo) -> None:
        """Add these pods as consumers of the claim."""
        claim = self.table.claims[key]
        uids = claim.reserved.union(info.uid for info in pods)
        self.table.set_claim(replace(claim, reserved=uids))

    def give_back(self, key: ClaimKey) -> None:
        """Deallocate the claim, as the controller does without consumers."""
        claim = self.table.claims[key]
        self.table.set_claim(replace(claim, allocation=None, reserved=frozenset()))

    def holds(
        self,
        node: str,
        *devices: str,
        group: str | None = None,
        priority: int = 0,
        cpu: int = 1,
        claims: tuple[ClaimKey, ...] = (),
    ) -> PodInfo:
        """Add a running pod with its own claim on these devices, and with other claims."""
        self._serial += 1
        name = f"v{self._serial:05}"
        own = (self.allocated(f"{name}-own", node, *devices),) if devices else ()
        info = PodInfo(
            f"uid-{name}", "ns", name, Requirements(requests(cpu)), node, group, priority,
            created=f"{self._serial:05}", phase="Running", started=float(self._serial),
            device_claims=(*own, *claims),
        )  # fmt: skip
        self.state.set_pod(info)
        for key in info.device_claims:
            self.reserve(key, info)
        return info

    def fits_without(
        self, name: str, units: list[str], *, memory: SearchMemory | None = None
    ) -> bool:
        """Return True if the root would be placed without these pods and their claims."""
        claims = list(self.table.claims.values())
        pods = [self.state.pods[uid].info for uid in units]
        for uid in units:
            self.state.remove_pod(uid)
        for key in list(self.table.consumers.returning):
            self.give_back(key)
        decision = place(self.state, self.root(name), SearchBudget(), memory=memory)
        for info in pods:
            self.state.set_pod(info)
        for claim in claims:
            self.table.set_claim(claim)
        return isinstance(decision, Placement)

    def usages(self) -> tuple[list[object], dict[ClaimKey, object], list[list[int]]]:
        """Return the usage of devices and resources, to compare before and after."""
        table, nodes = self.table, self.state.nodes
        numbers = table.states_of(np.arange(nodes.size)).tolist()
        states: list[object] = [table.states.all[number] for number in numbers]
        claims: dict[ClaimKey, object] = {key: table.allocation(key) for key in table.claims}
        return states, claims, nodes.free[:, : nodes.size].tolist()
