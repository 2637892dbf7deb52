"""A cluster with devices and claims: requests, decisions, and checks of the allocations."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler.core.devices.kinds import SelectorEvaluator
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceClaimInfo, DeviceInfo, SliceInfo
from scheduler.core.values.model import ClaimKey, PodInfo, Requirements
from tests.scheduler.devices.builders import CLASSES, device, evaluate, pool
from tests.scheduler.devices.checker import Checker
from tests.scheduler.state_builder import StateBuilder, requests


class DeviceCluster(StateBuilder):
    def __init__(self, evaluate: SelectorEvaluator = evaluate) -> None:
        super().__init__(evaluate=evaluate)
        self.evaluate = evaluate
        self.table = self.state.devices
        self.slices: dict[str, SliceInfo] = {}
        for device_class in CLASSES.values():
            self.table.set_class(device_class)

    def slice(self, info: SliceInfo) -> None:
        self.slices[info.name] = info
        self.table.slices.set(info)

    def gpu_node(
        self,
        name: str,
        *devices: DeviceInfo,
        count: int = 0,
        cpu: int = 64,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add a node with these devices, or that many equal ones."""
        self.node(name, cpu, labels=labels)
        found = devices or tuple(device(f"gpu-{at}") for at in range(count))
        self.slice(pool(*found, pool=name, node=name))

    def claim(self, name: str, ask: Ask, *, owner: str = "") -> ClaimKey:
        key = ("ns", name)
        self.table.set_claim(DeviceClaimInfo(key, f"uid-{name}", ask, owner))
        return key

    def asks(
        self,
        group: str | None,
        *asks: Ask | ClaimKey,
        cpu: int = 1,
        selector: tuple[tuple[str, str], ...] = (),
        priority: int = 0,
    ) -> PodInfo:
        """Add a pending pod with its own claim for each ask, and the named ones."""
        name = f"p{self._serial + 1:05}"
        keys = tuple(
            self.claim(f"{name}-{at}", each, owner=f"uid-{name}") if isinstance(each, Ask) else each
            for at, each in enumerate(asks)
        )
        wants = Requirements(requests(cpu), selector=selector, asks=asks)
        return self.pod(group, name=name, requirements=wants, device_claims=keys, priority=priority)

    def write(self, decision: Placement | Refusal) -> Placement:
        """Carry the decision out, and write the allocations, as the shell will."""
        self.run(decision)
        assert isinstance(decision, Placement)
        users: dict[ClaimKey, set[str]] = {}
        for each in decision.pods:
            for key in each.info.device_claims:
                users.setdefault(key, set()).add(each.info.uid)
        for key, allocation in (decision.devices or {}).items():
            if allocation.ask is not None:
                (owner,) = users[key]
                info = DeviceClaimInfo(key, f"uid-{key[1]}", allocation.ask, owner)
                self.table.set_claim(info)
            claim = self.table.claims[key]
            written = replace(allocation, devices=tuple(
                replace(d, share=f"{key[1]}-{at}") if d.share == "" else d
                for at, d in enumerate(allocation.devices)
            ))  # fmt: skip
            reserved = claim.reserved | users.get(key, set())
            self.table.set_claim(replace(claim, allocation=written, reserved=reserved))
        return decision

    def complaints(self) -> list[str]:
        """Return the checker's findings in all claims, as used by pods with nodes."""
        labels = {info.name: info.labels for info in self.state.nodes.infos if info is not None}
        checker = Checker(self.slices.values(), self.table.classes, self.evaluate, labels)
        nodes: dict[str, list[str]] = {}
        for each in self.state.pods.values():
            for key in each.info.device_claims if each.node else ():
                if key not in self.table.claims and each.info.requirements.extended:
                    continue  # its node offers the resource itself
                nodes.setdefault(self.table.claims[key].uid, []).append(each.node)
        return checker.complaints(list(self.table.claims.values()), nodes)

    def devices_of(self, keys: Iterable[ClaimKey]) -> list[str]:
        """Return the devices of claims by name, each with its pool."""
        found = []
        for key in keys:
            allocation = self.table.allocation(key)
            assert allocation is not None, key
            found += [f"{each.key[1]}:{each.key[2]}" for each in allocation.devices]
        return found
