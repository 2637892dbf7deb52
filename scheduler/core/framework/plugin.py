"""Base class of plugins: one set of rules, at the extension points of kube-scheduler.

Each method returns results for all nodes at once, or for some rows of them, and for all pods of a
shape. The defaults change nothing, so a plugin overrides only the methods in which it differs, and
`Framework` calls no others. docs/design/first-plugin.md adds one.
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
    """Match counts of other pods that a plugin's filter and score read.

    `needs_other_pods` means that pods of another shape must be placed first.
    """

    filter_match_ids: Collection[int] = ()
    score_match_ids: Collection[int] = ()
    needs_other_pods: bool = False


class Plugin:
    """Plugin that admits all nodes and prefers none."""

    name: ClassVar[str] = ""
    """Name of kube-scheduler's plugin with these rules."""

    weight: ClassVar[int] = 0
    """Weight of `score_nodes`, in thousandths of a node's use; negative if high values are bad."""

    by_claims: ClassVar[bool] = False
    """True if claims hold what `reserve` takes, once the pod has a node."""

    events: ClassVar[Events] = {}
    """Events that can make a rejected pod fit, and where. Only these trigger another check."""

    # PreFilter

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        """Return the match counts that the plugin reads, from requirements and matches alone."""
        return PreFilter()

    def rejects(self, shape: Shape) -> str:
        """Return the reason why no node can take such pods, whatever it has; empty if one may.

        kube-scheduler's PreFilter returns it before any node is checked, so no node counts.
        """
        return ""

    def forget(self, shape: Shape) -> None:
        """Drop what is cached for a shape that no pending pod has."""

    # Filter

    def filter_class(self, wants: Requirements, node: NodeClass) -> str:
        """Return the reason why nodes of this class (equal taints) reject such pods, or ""."""
        return ""

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        """Rule out nodes by `shape.rule_out`, regardless of other pods; the result is cached."""

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        """Rule out nodes by rules that depend on other pods, on claims or on volumes.

        The framework calls it for shapes with `filter_match_ids`, again after each change.
        """

    def room(
        self, shape: Shape, rows: Ints | slice, permitted: Bools, room: Ints | None, *, empty: bool
    ) -> Ints:
        """Return the number of pods for which each row (n,) has capacity, at most `room` (n,).

        `room` is the result of the previous plugins, None for the first one, which counts.
        `permitted` (n,) marks the rows that the node filters admit. `empty` ignores running pods.
        """
        assert room is not None
        return room

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Return the shapes that may fit on the rows (n,), by checks that are cheap for many."""
        return list(shapes)

    def most(self, shape: Shape, room: Ints, parts: Ints, size: int) -> Ints | None:
        """Return an upper bound of the pods that fit into each part, (size,), or None for no bound.

        `room` (N,) is the capacity of each node, `parts` (N,) the part that it is in, -1 for none.
        """
        return None

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """Yield each reason with the nodes (N,) where it rules out one more pod than `room` (N,).

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
        """Return True if the node of one pod affects others in other ways than by match counts."""
        return False

    def one_at_a_time(self, shape: Shape) -> bool:
        """Return True if the plugin must run again after each placed pod."""
        return False

    def is_local(self, shape: Shape) -> bool:
        """Return True if, apart from match counts, the result for a node depends on it alone."""
        return True

    def equal_room(self, shape: Shape) -> object:
        """Return a key that is equal for shapes with equal capacity on all nodes, or None."""
        return None

    def domain_quotas(self, shape: Shape) -> Iterable[DomainQuota]:
        """Return the numbers of pods that domains may take before the plugin must run again."""
        return ()

    def skew_limits(self, shape: Shape) -> Iterable[SkewLimit]:
        """Return the limits of domains that rise as other domains take pods."""
        return ()

    def preferences(self, shape: Shape) -> Iterable[Preference]:
        """Return the domains that the next pods prefer because of those placed before."""
        return ()

    def left(self, shape: Shape) -> int | None:
        """Return the number of further pods that all nodes together may take, or None for any."""
        return None

    # Score

    def score_nodes(self, shape: Shape) -> Ints | None:
        """Return a score for each node (N,), before normalisation and `weight`; None if all are 0.

        It must depend on nodes alone, and is cached until these change.
        """
        return None

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Return the score of each row, (len(rows),), in thousandths of a node's use.

        Return None if all rows are equal.
        """
        return None

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int | None:
        """Return the index of the row for the first of `count` pods, or None if it does not matter.

        The rows are best first, with capacity `room` (len(rows),).
        """
        return None

    # Reserve

    def only_counts(self, shape: Shape) -> bool:
        """Return True if `reserve` and `account` do nothing for the shape."""
        return True

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """Reserve for `counts[i]` pods on `rows[i]`, or release if negative, in the open trial.

        The nodes do not count the pods yet. Return True if there was enough for all.
        """
        return True

    def account(self, shape: Shape, row: int, *, more: bool) -> None:
        """Update after pods came to the row or left it; the nodes count them already."""

    def key(self, shape: Shape) -> object:
        """Return a key of all that `room` depends on apart from the rows of nodes, or None."""
        return None
