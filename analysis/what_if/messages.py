"""Questions and results of what-if: JSON with camelCase names.

A workload's ID is `NAMESPACE/KIND/NAME`. Every text may come from a user of the cluster.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from analysis.fit.messages import FitRequest

MEMORY: Final = 4 << 30
"""Bytes that the process may have; less if its container does not have twice as much."""

SECONDS: Final = 30.0
"""Seconds of one question. Roots that are not decided after half of it count as untried."""

WRONG: Final = 3
"""The exit code for a question that cannot be tried; its output is the reason."""


class Message(msgspec.Struct, rename="camel", kw_only=True):
    """Base class of all messages."""


class AddNodes(Message):
    """More nodes with all that the node `like` offers."""

    like: str
    count: int


class RemoveDomain(Message):
    """Removal of the nodes with this value of a topology key."""

    key: str
    value: str


class Change(Message, omit_defaults=True):
    """One change of the cluster: exactly one of its fields is set."""

    add_nodes: AddNodes | None = None
    remove_domain: RemoveDomain | None = None
    remove_node: str | None = None
    evict: str | None = None


MOST_CHANGES: Final = 100
"""Changes of one question. A question with more is rejected."""


class WhatIfRequest(Message):
    """Manifests (YAML), and changes of the cluster, for a trial on a copy."""

    manifests: str = ""
    changes: Annotated[list[Change], msgspec.Meta(max_length=MOST_CHANGES)] = []


class PlacedPod(Message):
    """A pod and the node that it would get."""

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
    """A workload that would be evicted, and its preemptor."""

    id: str
    by: str | None = None


class WhatIfAnswer(Message):
    """The outcome; `lines` summarize it."""

    placements: list[WouldPlace]
    waiting: list[WouldWait]
    evicted: list[WouldEvict]
    lines: list[str]


class FitQuestion(msgspec.Struct):
    """A question of `fit` whose workloads with these numbers are to be answered.

    `held_until` has the end of held places by group ID, and `now` the current time, in seconds
    since 1970.
    """

    request: FitRequest
    only: list[int]
    held_until: dict[str, float]
    now: float


class Question(msgspec.Struct):
    """The input of the process: a snapshot of the cluster, and the settings of its scheduler.

    With `fit`, the result is a list of FitResult.
    """

    request: WhatIfRequest
    snapshot: msgspec.Raw
    gates: list[str]
    schedulers: list[str]
    memory: int
    fit: FitQuestion | None = None
