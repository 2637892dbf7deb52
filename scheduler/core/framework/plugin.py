"""What a plug-in is: one set of rules, at the extension points of kube-scheduler.

Each method answers for all nodes at once, or for some rows of them, and for all pods of a shape.
The defaults change nothing, so a plug-in has the methods in which it differs; `Framework` asks no
others. docs/design/first-plugin.md adds one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from scheduler.core.framework.domain_quotas import DomainQuota, Preference, SkewLimit
from scheduler.core.framework.events import Events
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.pods.pod_selectors import PodMatches
from scheduler.core.pods.shapes import Codes, Shape
from scheduler.core.values.model import Requirements


class PreFilter(NamedTuple):
    """What a plug-in reads of other pods: the match counts of its filter and of its score.

    `needs_other_pods` means that pods of another shape must be placed first.
    """

    filter_match_ids: Collection[int] = ()
    score_match_ids: Collection[int] = ()
    needs_other_pods: bool = False


class Plugin:
    """A plug-in that admits all nodes and prefers none."""

    name: ClassVar[str] = ""
    """That of kube-scheduler's plug-in with these rules."""

    weight: ClassVar[int] = 0
    """Of `score_nodes`, in thousandths of a node's use; negative if high values are bad."""

    by_claims: ClassVar[bool] = False
    """Whether what `reserve` takes is held by the claims of pods that have nodes."""

    events: ClassVar[Events] = {}
    """The events that can make a pod fit that the plugin refused, and where; no others need to."""

    # PreFilter

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        """What the answers about such pods depend on, from requirements and matches alone."""
        return PreFilter()

    def forget(self, shape: Shape) -> None:
        """Drop what was kept for the shape: no pod of it waits."""

    # Filter

    def filter_class(self, wants: Requirements, node: NodeClass) -> str:
        """Why nodes of this class (of equal taints) do not take such pods; empty if they do."""
        return ""

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        """Rule out nodes, by `shape.rule_out`, whatever other pods there are; cached."""

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        """Rule out nodes for what depends on other pods, on claims or on volumes.

        It is asked of shapes with `filter_match_ids`, again after each change.
        """

    def room(
        self, shape: Shape, rows: Ints | slice, permitted: Bools, room: Ints | None, *, empty: bool
    ) -> Ints:
        """For how many pods each of the rows (n,) has room, where others leave `room` (n,).

        None for the first plug-in, which counts. `permitted` (n,) are the rows that the filters of
        nodes admit, `empty` asks as if no pods were there.
        """
        assert room is not None
        return room

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Those of many shapes that the rows (n,) may have room for, by what is quickly told."""
        return list(shapes)

    def most(self, shape: Shape, room: Ints, parts: Ints, size: int) -> Ints | None:
        """An upper bound on the pods that fit into each of the parts, (size,); None for no bound.

        `room` (N,) is that of each node, `parts` (N,) the part that it is in, -1 for none.
        """
        return None

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """Yield each reason with the nodes (N,) where it rules out one pod more than `room` (N,).

        The text is kube-scheduler's.
        """
        yield from ()

    def advice(self, shape: Shape, reason: str) -> str:
        """Return the one change that helps against a reason of this plugin; empty if none does.

        It is for users: a part of a sentence, such as `raise maxSkew, or add nodes`.
        """
        return ""

    # The next pod of the shape

    def order_matters(self, shape: Shape) -> bool:
        """Whether where one pod goes decides about others, besides by match counts."""
        return False

    def one_at_a_time(self, shape: Shape) -> bool:
        """Whether the plug-in must run again after each pod that is placed."""
        return False

    def is_local(self, shape: Shape) -> bool:
        """Whether its answer for a node depends on that node alone, besides by match counts."""
        return True

    def equal_room(self, shape: Shape) -> object:
        """Equal for shapes that nodes have equal room for though they differ; None: no others."""
        return None

    def domain_quotas(self, shape: Shape) -> Iterable[DomainQuota]:
        """How many more pods domains may take before it must run again."""
        return ()

    def skew_limits(self, shape: Shape) -> Iterable[SkewLimit]:
        """Domains that may take more pods while others do."""
        return ()

    def preferences(self, shape: Shape) -> Iterable[Preference]:
        """Domains that the next pods prefer for those that are placed before."""
        return ()

    def left(self, shape: Shape) -> int | None:
        """How many more pods all nodes together may take; None: any number."""
        return None

    # Score

    def score_nodes(self, shape: Shape) -> Ints | None:
        """Per node (N,) what is normalised and weighted by `weight`; None if all are 0.

        It depends on nothing but nodes, and is cached until these change.
        """
        return None

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """The score of each row, (len(rows),), in thousandths of a node's use; None: all equal."""
        return None

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int | None:
        """Index of the row to take the first of `count` pods; None if it does not matter.

        The rows are best first, and have this `room` (len(rows),).
        """
        return None

    # Reserve

    def only_counts(self, shape: Shape) -> bool:
        """Whether `reserve` and `account` do nothing for the shape."""
        return True

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """Take what `counts[i]` pods on `rows[i]` take, or give it back if negative.

        In the open trial, before nodes count the pods. Returns whether there was enough for all.
        """
        return True

    def account(self, shape: Shape, row: int, *, more: bool) -> None:
        """Pods came to the row, or left it, and nodes count them so."""

    def key(self, shape: Shape) -> object:
        """What `room` depends on besides the rows of nodes; None if on nothing."""
        return None
