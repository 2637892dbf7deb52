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
from kube.resources import NAMESPACES, NODES, PDBS, PODS, PRIORITY_CLASSES
from scheduler.core.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from scheduler.core.state import State
from scheduler.resources import GROUPS
from scheduler.watch import volumes as storage
from scheduler.watch.event_handlers import Budgets, Classes, Groups, Namespaces, Nodes, Pods
from scheduler.watch.objects import (
    GroupObject,
    decode_budget,
    decode_group,
    decode_namespace,
    decode_node,
    decode_pod,
)


def _nothing() -> None:
    """Nobody has to be told."""


@dataclass(slots=True)
class Informers:
    """The watches, the state they fill, and the groups as last seen; `changed` is told of each."""

    client: Client
    state: State
    changed: Callable[[], None] = _nothing
    observed: dict[GroupKey, GroupObject] = field(default_factory=dict)
    classes: Classes = field(default_factory=Classes)
    pods: Pods = field(init=False)
    reflectors: tuple[Reflector[Any], ...] = field(init=False)

    def __post_init__(self) -> None:
        client, state, changed = self.client, self.state, self.changed
        self.pods = Pods(state, changed)
        self.reflectors = (
            Reflector(client, NODES, Nodes(state, changed), decode=decode_node),
            Reflector(client, NAMESPACES, Namespaces(state, changed), decode=decode_namespace),
            Reflector(client, PDBS, Budgets(state), decode=decode_budget),
            Reflector(client, PRIORITY_CLASSES, self.classes, decode=decode_raw),
            *storage.reflectors(client, state, changed),
            *(
                Reflector(
                    client,
                    GROUPS[kind],
                    Groups(kind, state, changed, self.observed),
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
    """One look at a cluster. Raises KubeError where it cannot be had within so many seconds."""
    # Reflectors wait for what is not there; a person wants to know at once.
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
