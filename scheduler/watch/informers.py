"""What the scheduler watches: one reflector per resource, all into one state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kube.client import Client
from kube.errors import ConfigError, NotFound
from kube.meta import decode_raw
from kube.reflector import Reflector
from kube.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PRIORITY_CLASSES,
    PVCS,
    PVS,
    STORAGE_CLASSES,
)
from scheduler.core.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from scheduler.core.state import State
from scheduler.resources import GROUPS
from scheduler.watch.event_handlers import (
    DisruptionBudgetHandler,
    GroupHandler,
    NamespaceHandler,
    NodeHandler,
    PodHandler,
    PriorityClassHandler,
)
from scheduler.watch.objects import (
    GroupObject,
    decode_budget,
    decode_group,
    decode_namespace,
    decode_node,
    decode_pod,
)
from scheduler.watch.volume_handlers import (
    ClaimHandler,
    CsiNodeHandler,
    StorageClassHandler,
    VolumeHandler,
)
from scheduler.watch.volume_objects import (
    decode_claim,
    decode_class,
    decode_csi_node,
    decode_volume,
)


def _nothing() -> None:
    """The default of `on_change`."""


@dataclass(slots=True)
class Informers:
    """The reflectors, and the state that they keep up to date.

    `observed` are the group objects as last delivered; `on_change` is called after each event.
    """

    client: Client
    state: State
    on_change: Callable[[], None] = _nothing
    observed: dict[GroupKey, GroupObject] = field(default_factory=dict)
    priority_classes: PriorityClassHandler = field(default_factory=PriorityClassHandler)
    pods: PodHandler = field(init=False)
    reflectors: tuple[Reflector[Any], ...] = field(init=False)

    def __post_init__(self) -> None:
        client, state, on_change = self.client, self.state, self.on_change
        self.pods = PodHandler(state, on_change)
        self.reflectors = (
            Reflector(client, NODES, NodeHandler(state, on_change), decode=decode_node),
            Reflector(
                client, NAMESPACES, NamespaceHandler(state, on_change), decode=decode_namespace
            ),
            Reflector(client, PDBS, DisruptionBudgetHandler(state), decode=decode_budget),
            Reflector(client, PRIORITY_CLASSES, self.priority_classes, decode=decode_raw),
            Reflector(client, PVCS, ClaimHandler(state, on_change), decode=decode_claim),
            Reflector(client, PVS, VolumeHandler(state, on_change), decode=decode_volume),
            Reflector(
                client, STORAGE_CLASSES, StorageClassHandler(state, on_change), decode=decode_class
            ),
            Reflector(client, CSI_NODES, CsiNodeHandler(state, on_change), decode=decode_csi_node),
            *(
                Reflector(
                    client,
                    GROUPS[kind],
                    GroupHandler(kind, state, on_change, self.observed),
                    decode=decode_group,
                )
                for kind in (COMPOSITE_POD_GROUP, POD_GROUP)
            ),
            Reflector(client, PODS, self.pods, decode=decode_pod),
        )

    @property
    def synced(self) -> bool:
        """Whether every watch has delivered its first list."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    async def wait(self) -> None:
        """Until every watch has delivered its first list."""
        for reflector in self.reflectors:
            await reflector.synced.wait()


async def read(client: Client, *, seconds: float = 60) -> Informers:
    """The state of a cluster, read once. Raises KubeError if that takes longer than `seconds`."""
    # Reflectors wait for a kind that is not served; users should hear of it at once.
    try:
        for resource in GROUPS.values():
            await client.request("GET", resource.path(), params={"limit": "1"})
    except NotFound as error:
        raise ConfigError(
            f"{client.server} does not serve {resource.full_name}: is Muster installed?"
        ) from error
    informers = Informers(client, State())
    tasks = [asyncio.ensure_future(reflector.run()) for reflector in informers.reflectors]
    try:
        async with asyncio.timeout(seconds):
            await informers.wait()
    except TimeoutError as error:
        raise ConfigError(
            f"{client.server}: not all that the scheduler looks at could be read in {seconds:g} s"
        ) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return informers
