"""The links from groups to the parents that they name, up to the maximum depth of a tree.

A link that would close a cycle, or make a tree deeper than MAX_DEPTH, is cut: the group remains the
top of its own part, and both parts are faulty. So no walk along links is ever longer than
MAX_DEPTH, whatever users create. A cut link is tried again as soon as one of its parts gets
smaller. There may be many cut links below a group that moved, so these are tried a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scheduler.core.groups.group_counters import GroupCounters
from scheduler.core.groups.groups import MAX_DEPTH, Group
from scheduler.core.values.model import GroupKey, parent_kind


class GroupLinks:
    """The links between the groups. `moved` are those that were linked after their creation."""

    def __init__(
        self,
        counters: GroupCounters,
        group_of: Callable[[GroupKey], Group],
        prune: Callable[[Group], None],
    ) -> None:
        """Use `group_of` to get the group with a key, `prune` to remove an empty one."""
        self.moved: list[Group] = []
        self._counters = counters
        self._group_of = group_of
        self._prune = prune
        self._postponed: dict[GroupKey, Iterator[None]] = {}

    def link(self, group: Group) -> None:
        """Link the group to the parent that its spec names, if it names one."""
        if group.spec is None or group.spec.parent is None:
            return
        parent = self._group_of((parent_kind(group.key[0]), group.key[1], group.spec.parent))
        if self._fits(group, parent):
            self._attach(group, parent)
            return
        group.cut_from = parent
        parent.cut_children[group.key] = group
        self._counters.settle(group)
        self._counters.settle(parent)

    def unlink(self, group: Group) -> None:
        """Undo `link`. Links that were cut may be possible now."""
        if group.cut_from is not None:
            # The parent may be known only because this group named it.
            self._prune(self._mend(group))
        parent = group.parent
        if parent is None:
            return
        # While the link exists: the counters are subtracted along it.
        self._counters.credit(group, -1)
        group.parent = None
        del parent.children[group.key]
        top = parent.top
        self._prune(parent)
        # The tree above has become smaller, so its own cut link may fit now.
        self._relink(top)
        # A group without flaws has no cut links below it.
        if group.faulty:
            self.postpone(group.key, self._relink_below(group))

    def postpone(self, key: GroupKey, work: Iterator[None]) -> None:
        """Leave steps of work to `catch_up`; they replace what was left for the same key."""
        self._postponed.pop(key, None)
        self._postponed[key] = work

    def catch_up(self, steps: int) -> bool:
        """Do up to `steps` postponed steps, each O(depth). Return True if some are left."""
        while self._postponed and steps > 0:
            key, work = next(iter(self._postponed.items()))
            # Work that does not end within the steps stays the first in line.
            for _ in work:
                steps -= 1
                if steps <= 0:
                    break
            else:
                del self._postponed[key]
        return bool(self._postponed)

    def _fits(self, group: Group, parent: Group) -> bool:
        self._counters.visited += MAX_DEPTH
        # A cycle would link the group below itself: then it is the top of its own parent.
        return parent.top is not group and parent.level + group.height <= MAX_DEPTH

    def _attach(self, group: Group, parent: Group) -> None:
        group.parent = parent
        parent.children[group.key] = group
        self._counters.credit(group, 1)

    def _mend(self, group: Group) -> Group:
        """Forget that the group's link is cut. Return the parent that it names."""
        parent, group.cut_from = group.cut_from, None
        if parent is None:
            raise LookupError(group.key)
        del parent.cut_children[group.key]
        self._counters.settle(group)
        self._counters.settle(parent)
        return parent

    def _relink(self, group: Group) -> None:
        """Link a group whose link was cut, if that is possible now."""
        parent = group.cut_from
        if parent is not None and self._fits(group, parent):
            self._mend(group)
            self._attach(group, parent)
            self.moved.append(group)

    def _relink_below(self, group: Group) -> Iterator[None]:
        """Try all cut links of the subtree, one in each step."""
        stack = [group]
        while stack:
            node = stack.pop()
            # A list: links that succeed leave the dictionary.
            for child in list(node.cut_children.values()):
                self._relink(child)
                yield
            # Only faulty subtrees can contain cut links.
            stack.extend(node.faulty_children.values())
            yield
