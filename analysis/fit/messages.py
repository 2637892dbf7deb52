"""Questions and answers of `fit`: JSON with camelCase names.

A workload's ID is `NAMESPACE/KIND/NAME`. Every text may come from a user of the cluster.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

MOST_WORKLOADS: Final = 50
"""Workloads of one question. A question with more is rejected."""

MOST_SHOWN: Final = 500
"""Items in each list of an answer. Further ones are left out; the numbers of pods count all."""


class Message(msgspec.Struct, rename="camel", kw_only=True):
    """Base class of all messages."""


class FitWorkload(Message, forbid_unknown_fields=True):
    """A workload: `manifests` (YAML), or the same as JSON `objects`, or both."""

    manifests: str = ""
    objects: list[dict[str, Any]] = []


Workloads = Annotated[list[FitWorkload], msgspec.Meta(min_length=1, max_length=MOST_WORKLOADS)]


class FitRequest(Message, forbid_unknown_fields=True):
    """Workloads, each on its own, or with `together` one after the other.

    `namespace` is that of objects that name none.
    """

    workloads: Workloads
    together: bool = False
    namespace: str = "default"


class FitDomain(Message):
    """A topology domain, and how many of the pods would run in it."""

    key: str
    value: str
    pods: int


class FitNode(Message):
    """A node, and how many of the pods would run on it."""

    name: str
    pods: int


class FitVictim(Message):
    """A workload that would lose pods: how many, and in how many units of preemption."""

    id: str
    pods: int
    units: int
    priority: int


Verdict = Literal["now", "afterEviction", "afterTermination", "no", "unknown"]


class FitRoot(Message):
    """A group or pod that the scheduler decides as one.

    `fits` is `now`; `afterEviction` of the victims; `afterTermination` of pods that terminate
    already; `no`; or `unknown` if the budget of the search ended before. `sentence` is the
    scheduler's reason for the last two. `pods` have a node in `nodes` and a domain in `domains`,
    which are None for users who may not list nodes. `evicted_pods` counts the pods of all victims;
    those in namespaces that the user does not see are not in `evicts`, and are counted in
    `hidden_workloads` and `hidden_pods`. `known_from` is the earliest known time (RFC
    3339) from which it fits if nothing else changes; None if nothing is known.
    """

    id: str
    fits: Verdict
    pods: int = 0
    sentence: str = ""
    domains: list[FitDomain] | None = []
    nodes: list[FitNode] | None = []
    evicts: list[FitVictim] = []
    evicted_pods: int = 0
    hidden_workloads: int = 0
    hidden_pods: int = 0
    known_from: str | None = None


class FitResult(Message):
    """The answer for a workload: `yes` if all its roots fit, now or after the named pods end."""

    fits: Literal["yes", "no", "unknown"]
    roots: list[FitRoot]
    notes: list[str] = []


class FitAnswer(Message):
    """One result for each workload, in their order."""

    workloads: list[FitResult]
