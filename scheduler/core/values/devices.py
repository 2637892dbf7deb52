"""The frozen values of `resource.k8s.io/v1` that the decision core works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.core.values.device_asks import Amounts, Ask, DeviceConfig, DeviceToleration
from scheduler.core.values.model import ClaimKey, Term

PoolKey = tuple[str, str]
"""(driver, pool name)."""

DeviceKey = tuple[str, str, str]
"""(driver, pool name, device name)."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a device; the text of a version is in its only form, so equal is equal."""

    type: Literal["bool", "int", "string", "version"]
    value: bool | int | str


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """How much of a capacity one request may take, in nano-units.

    What is asked for is rounded up: to `minimum` and whole steps above it, or to the next of
    `values`. Without a request, `default` is taken, or all of it if that is None.
    """

    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a device has of something, in nano-units."""

    name: str
    value: int
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device; NoSchedule and NoExecute ones must be tolerated, others say nothing."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class NodeScope:
    """The nodes that can reach something: the one with the name, those of the terms, or all."""

    name: str = ""
    terms: tuple[Term, ...] | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device. `attributes` and `capacity` are sorted by name, as their driver wrote these.

    `counters` has (counter set, amounts) that it takes of its pool. `shared` means
    allowMultipleAllocations. `scope` is set if the slice leaves the choice of nodes to its devices.
    """

    name: str
    attributes: tuple[tuple[str, Attribute], ...] = ()
    capacity: tuple[Capacity, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    counters: tuple[tuple[str, Amounts], ...] = ()
    shared: bool = False
    scope: NodeScope | None = None
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """A ResourceSlice; `scope` None means that each device has its own.

    `slices` is how many slices of this generation make up the pool. `counters` has (counter set,
    amounts) that devices of the pool share.
    """

    name: str
    driver: str
    pool: str
    devices: tuple[DeviceInfo, ...] = ()
    scope: NodeScope | None = None
    generation: int = 1
    slices: int = 1
    counters: tuple[tuple[str, Amounts], ...] = ()

    @property
    def pool_key(self) -> PoolKey:
        return (self.driver, self.pool)


@dataclass(frozen=True, slots=True)
class DeviceClassInfo:
    """A DeviceClass; `selectors` are CEL expressions.

    `resources` are the extended resources that it stands for, `created` its creationTimestamp.
    """

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    resources: tuple[str, ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device of an allocation (DeviceRequestAllocationResult).

    `share` is the share ID of a device that several claims may have, None of others; whoever writes
    an allocation that was decided here replaces the empty one by a new ID.
    """

    request: str
    key: DeviceKey
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    share: str | None = None
    consumed: Amounts = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedConfig:
    """Configuration of an allocation; `of_class` means source FromClass, else FromClaim."""

    config: DeviceConfig
    of_class: bool


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim has been given. `nodes` None: every node can use it.

    `ask` is set for a claim that does not exist before it is given something: that for the extended
    resources of a pod, which asks for other devices on other nodes.
    """

    devices: tuple[AllocatedDevice, ...]
    config: tuple[AllocatedConfig, ...] = ()
    nodes: tuple[Term, ...] | None = None
    ask: Ask | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaimInfo:
    """A ResourceClaim. `owner` is the UID of the pod or group that it was made for, or empty.

    `reserved` are the UIDs in status.reservedFor; `reserved_elsewhere` means that one of them is no
    pod's.
    """

    key: ClaimKey
    uid: str
    ask: Ask
    owner: str = ""
    terminating: bool = False
    allocation: Allocation | None = None
    reserved: frozenset[str] = frozenset()
    reserved_elsewhere: bool = False
