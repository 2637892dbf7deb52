"""Base class of plugins: one set of rules, at the extension points of kube-scheduler.

A method gets all pods of a shape and all nodes, or some rows of them, and not one pod and one node
as in kube-scheduler. The defaults admit all nodes and prefer none. A plugin overrides only the
methods in which it differs, and `Framework` calls only these. docs/design/first-plugin.md adds one.
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
    """Result of PreFilter: the match counts of other pods that Filter and Score read.

    `needs_other_pods` is True if pods of another shape must be placed first.
    """

    filter_match_ids: Collection[int] = ()
    score_match_ids: Collection[int] = ()
    needs_other_pods: bool = False


class Plugin:
    """Plugin that admits all nodes and prefers none.

    A plugin gets the shape as an argument and keeps nothing in it. In the shapes of arrays, N is
    the number of rows of the node table.
    """

    name: ClassVar[str] = ""
    """Name of kube-scheduler's plugin with these rules."""

    weight: ClassVar[int] = 0
    """kube-scheduler's weight, in thousandths of a node's use; negative if high scores are bad."""

    by_claims: ClassVar[bool] = False
    """True if claims keep what `reserve` takes once the pod has a node.

    `Framework.reserve` skips such plugins for pods whose claims are counted already.
    """

    events: ClassVar[Events] = {}
    """Events that may make a pod schedulable that this plugin rejected, and the nodes concerned.

    They correspond to EventsToRegister. The scheduler checks pending roots only after events that
    a plugin registers. A root that needs another event waits for the next regular attempt.
    """

    # PreFilter

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        """Return the match counts of other pods that Filter and Score read.

        The framework calls it once, when it creates a shape. The result must depend on `wants` and
        `matches` alone.
        """
        return PreFilter()

    def rejects(self, shape: Shape) -> str:
        """Return the reason why no node can take such pods, whatever it has; empty if one may.

        kube-scheduler's PreFilter returns it before any node is checked, so no node counts.
        """
        return ""

    def forget(self, shape: Shape) -> None:
        """Drop what the plugin caches for the shape.

        The framework calls it when no pending pod has the shape, or when the cached results of all
        shapes exceed their limit. The shape may be used again.
        """

    # Filter

    def filter_class(self, wants: Requirements, node: NodeClass) -> str:
        """Return the reason why nodes of this class reject such pods; empty if they do not.

        Nodes of a class have equal taints, and are all cordoned or all not. The framework caches
        the result for each shape and class. As in kube-scheduler, the first reason counts.
        """
        return ""

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        """Rule out the nodes that reject the shape's pods, by `shape.rule_out` on `codes` (N,).

        The framework calls it after `filter_class` and caches the result until nodes change. So
        the result must not depend on other pods or on free resources.
        """

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        """Rule out nodes by rules that depend on other pods, on claims or on volumes.

        The framework calls it for shapes with `filter_match_ids`, and again after each change of
        the node table, such as a placed pod.
        """

    def capacity(
        self,
        shape: Shape,
        rows: Ints | slice,
        permitted: Bools,
        capacity: Ints | None,
        *,
        empty: bool,
    ) -> Ints:
        """Return the number of the shape's pods that fit on each row (n,), at most `capacity` (n,).

        The framework calls the plugins one after another. `capacity` is the result of the previous
        one, and None for the first one. `permitted` (n,) is True for the rows that the node filters
        admit. With `empty`, running pods do not count.
        """
        # Only the first plugin that overrides this method gets None, and it counts by requests.
        assert capacity is not None
        return capacity

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Return the shapes that may fit on the rows (n,), by checks that are cheap for many.

        The scheduler calls it after an event, for many pending shapes at once. The result must
        contain each shape that fits on one of the rows.
        """
        return list(shapes)

    def most(self, shape: Shape, capacity: Ints, parts: Ints, size: int) -> Ints | None:
        """Return an upper bound of the pods that fit into each part, (size,); None for no bound.

        `capacity` (N,) is the number of pods that fit on each node. `parts` (N,) is the part
        that each node is in, -1 for none. The framework uses the lowest bound of all plugins.
        """
        return None

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        """Yield each reason with the nodes (N,) where it rejects one more pod than `capacity` (N,).

        The framework calls it to explain a refusal. The reason is kube-scheduler's text.
        """
        yield from ()

    def advice(self, shape: Shape, reason: str) -> str:
        """Return the one change that helps against the reason; empty if it is not this plugin's.

        Users read it as a part of a sentence, such as `raise maxSkew, or add nodes`.
        """
        return ""

    # The next pod of the shape. kube-scheduler evaluates its plugins for each pod. Muster places
    # many equal pods at once, so plugins state how a placed pod affects the next one.

    def order_matters(self, shape: Shape) -> bool:
        """Return True if the node of one pod affects the next pods other than by match counts."""
        return False

    def one_at_a_time(self, shape: Shape) -> bool:
        """Return True if the framework must call the plugin after each placed pod."""
        return False

    def is_local(self, shape: Shape) -> bool:
        """Return True if, apart from match counts, the result for a node depends on it alone."""
        return True

    def equal_capacity(self, shape: Shape) -> object:
        """Return a key that is equal for shapes with equal capacity on all nodes, or None."""
        # Thousands of pods may differ only in their volumes: one result then serves all of them.
        return None

    def domain_quotas(self, shape: Shape) -> Iterable[DomainQuota]:
        """Return how many pods each domain may take before the framework must call the plugin."""
        return ()

    def skew_limits(self, shape: Shape) -> Iterable[SkewLimit]:
        """Return the limits of domains that rise as other domains take pods."""
        return ()

    def preferences(self, shape: Shape) -> Iterable[Preference]:
        """Return the domains that the next pods prefer because of those placed before."""
        return ()

    def remaining_pods(self, shape: Shape) -> int | None:
        """Return how many more pods all nodes together may take, or None for no limit."""
        return None

    # Score

    def score_nodes(self, shape: Shape) -> Ints | None:
        """Return a score for each node (N,), before normalisation and `weight`; None if all are 0.

        The framework caches the result until nodes change, so it must depend on nodes alone.
        """
        return None

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Return the score of each row, (len(rows),), in thousandths of a node's use.

        The framework neither normalises nor weights it. Return None if all rows are equal.
        """
        return None

    def start(self, shape: Shape, rows: Ints, capacity: Ints, count: int) -> int | None:
        """Return the index of the row for the first of `count` pods, or None if it does not matter.

        The framework calls it for pods that are placed one at a time. The rows are best first, with
        capacity for `capacity` (len(rows),) pods.
        """
        return None

    # Reserve and Unreserve

    def only_counts(self, shape: Shape) -> bool:
        """Return True if `reserve` and `account` do nothing for the shape."""
        # Pods of such shapes are counted together, by arithmetic on the node table alone.
        return True

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """Reserve for `counts[i]` pods on `rows[i]`; a negative count releases (Unreserve).

        The framework calls it in the open trial, before the nodes count the pods. Return True if
        there was enough for all. Changes of the plugin's own tables need `NodeTable.undo_by`.
        """
        # The end of a trial does not call this method: it undoes the logged steps.
        return True

    def account(self, shape: Shape, row: int, *, more: bool) -> None:
        """Update the plugin after pods were placed on the row (`more`) or left it.

        The nodes count the change already. After `reserve`, the framework calls it for the first
        row only.
        """

    def key(self, shape: Shape) -> object:
        """Return a key of all that `capacity` depends on apart from the rows of nodes, or None."""
        # `Framework` computes only changed rows again as long as the key is the same.
        return None
