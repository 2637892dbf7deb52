"""What-if questions and their answers: JSON with camelCase names.

A workload's ID is `NAMESPACE/KIND/NAME`. Every text may come from a user of the cluster.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MEMORY: Final = 4 << 30
"""Bytes that the process may have; less where its container has not twice as much."""

SECONDS: Final = 30.0
"""Of one question as a whole; what is not tried after half of it is counted as that."""

WRONG: Final = 3
"""The exit code for a question that cannot be tried; its answer is the reason."""


class Message(msgspec.Struct, rename="camel", kw_only=True):
    """What all have in common."""


class AddNodes(Message):
    """More nodes with all that the node `like` offers."""

    like: str
    count: int


class RemoveDomain(Message):
    """Take the nodes with this value of a topology key away."""

    key: str
    value: str


class Change(Message, omit_defaults=True):
    """One change of the cluster: exactly one of these is given."""

    add_nodes: AddNodes | None = None
    remove_domain: RemoveDomain | None = None
    remove_node: str | None = None
    evict: str | None = None


MOST_CHANGES: Final = 100
"""Changes of one question. A question with more is rejected."""


class WhatIfRequest(Message):
    """Manifests (YAML), and changes of the cluster, to be tried on a copy."""

    manifests: str = ""
    changes: Annotated[list[Change], msgspec.Meta(max_length=MOST_CHANGES)] = []


class PlacedPod(Message):
    """Where a pod would go."""

    name: str
    node: str


class WouldPlace(Message):
    """A workload that would be placed."""

    id: str
    pods: list[PlacedPod]


class WouldWait(Message):
    """A workload that would still wait."""

    id: str
    sentence: str


class WouldEvict(Message):
    """A workload that would be evicted, and for whom."""

    id: str
    by: str | None = None


class WhatIfAnswer(Message):
    """What would happen; `lines` say it in short."""

    placements: list[WouldPlace]
    waiting: list[WouldWait]
    evicted: list[WouldEvict]
    lines: list[str]


class Question(msgspec.Struct):
    """What the process reads: the cluster as a snapshot, and how its scheduler is set up."""

    request: WhatIfRequest
    snapshot: msgspec.Raw
    gates: list[str]
    schedulers: list[str]
    memory: int
