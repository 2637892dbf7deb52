"""Frozen values of `resource.k8s.io/v1` for the decision core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.core.values.device_asks import Amounts, Ask, DeviceConfig, DeviceToleration
from scheduler.core.values.model import ClaimKey, NodeTerm

PoolKey = tuple[str, str]
"""(driver, pool name)."""

DeviceKey = tuple[str, str, str]
"""(driver, pool name, device name)."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of a device; a version is canonical text, so equal versions are equal values."""

    type: Literal["bool", "int", "string", "version"]
    value: bool | int | str


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """Policy for the amount of a capacity that one request takes, in nano-units.

    The requested amount is rounded up: to `minimum` and full steps above it, or to the next of
    `values`. Without a requested amount, `default` is taken, or all of the capacity if that is
    None.
    """

    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of a device, in nano-units."""

    name: str
    value: int
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """Taint of a device; only NoSchedule and NoExecute taints must be tolerated."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class NodeScope:
    """Nodes that can use a slice or device: the one with the name, those of the terms, or all."""

    name: str = ""
    terms: tuple[NodeTerm, ...] | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Device. `attributes` and `capacity` are sorted by name, as the driver wrote the names.

    `counters` has the (counter set, amounts) that it draws from its pool. `shared` means
    allowMultipleAllocations. `scope` is set if the slice has perDeviceNodeSelection.
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
    """ResourceSlice; `scope` None means that each device has its own.

    `slices` is the number of slices of this generation in the pool (resourceSliceCount). `counters`
    has the (counter set, amounts) that devices of the pool share.
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
    """DeviceClass; `selectors` are CEL expressions.

    `resources` are the extended resources that it provides, `created` its creationTimestamp.
    """

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    resources: tuple[str, ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """Device of an allocation (DeviceRequestAllocationResult).

    `share` is the share ID of a shared device, None for other devices. A decision leaves it empty,
    and the writer of the allocation replaces it by a new ID.
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
    """Allocation of a claim. `nodes` None means that every node can use it.

    `ask` is only set for the claim of a pod's extended resources. That claim is created after the
    decision, because its requests depend on the node.
    """

    devices: tuple[AllocatedDevice, ...]
    config: tuple[AllocatedConfig, ...] = ()
    nodes: tuple[NodeTerm, ...] | None = None
    ask: Ask | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaimInfo:
    """ResourceClaim. `owner` is the UID of the pod or group that it was created for, or empty.

    `reserved` are the UIDs of pods in status.reservedFor; `reserved_elsewhere` means that another
    consumer is no pod.
    """

    key: ClaimKey
    uid: str
    ask: Ask
    owner: str = ""
    terminating: bool = False
    allocation: Allocation | None = None
    reserved: frozenset[str] = frozenset()
    reserved_elsewhere: bool = False
