"""The owners that wait for a place in a tree, by the key of its root.

A user may create thousands of owners for one tree. An event wakes only those that it concerns, and
a root takes a bounded number of them at a time.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from controllers.groups.tree_owners import OwnerKey
from controllers.runtime.controller import RejectedError
from kube.client.meta import Key
from kube.client.resources import Resource


class WaitingOwners:
    """Owners that ask, that were refused, or that are too many, each in the order of arrival."""

    def __init__(self) -> None:
        self._queues: dict[Resource, Callable[[Key], None]] = {}
        self._asking: dict[Key, dict[OwnerKey, None]] = {}
        self._refused: dict[Key, dict[OwnerKey, None]] = {}
        self._surplus: dict[Key, dict[OwnerKey, None]] = {}
        self._problems: dict[OwnerKey, RejectedError] = {}

    def notify(self, resource: Resource, queue: Callable[[Key], None]) -> None:
        """Call `queue` with the keys of woken owners of a kind."""
        self._queues[resource] = queue

    def ask(self, root: Key, owners: Iterable[OwnerKey]) -> None:
        """Add owners that ask for a place."""
        asking = dict.fromkeys(owners)
        if asking:
            self._asking.setdefault(root, {}).update(asking)

    def is_asked(self, root: Key) -> bool:
        """Return True if owners ask for a place below the root."""
        return root in self._asking

    def take(self, root: Key, most: int) -> list[OwnerKey]:
        """Return owners that ask, `most` at most, and forget that they do."""
        asking = self._asking.get(root, {})
        found = list(islice(asking, most))
        for it in found:
            self._drop(self._asking, root, it)
        return found

    def refuse(self, root: Key, owner: OwnerKey) -> None:
        """Let an owner wait until the root, or what has its name, is deleted."""
        self._refused.setdefault(root, {})[owner] = None

    def set_aside(self, root: Key, owner: OwnerKey) -> None:
        """Let an owner of a full tree wait until another one leaves."""
        self._surplus.setdefault(root, {})[owner] = None

    def failed(self, owners: Iterable[OwnerKey], problem: RejectedError) -> None:
        """Wake owners whose place the API server rejected; `problem_of` returns the error."""
        for it in owners:
            self._problems[it] = problem
            self.wake([it])

    def problem_of(self, owner: OwnerKey) -> RejectedError | None:
        """Return the error that an owner has not reported yet, and forget it."""
        return self._problems.pop(owner, None)

    def forget(self, root: Key, owner: OwnerKey) -> None:
        """Forget an owner that is deleted or has left the tree."""
        self._problems.pop(owner, None)
        for waiting in (self._asking, self._refused, self._surplus):
            self._drop(waiting, root, owner)

    def wake(self, owners: Iterable[OwnerKey]) -> None:
        """Queue the owners."""
        for resource, key in owners:
            # The controller of the kind does not run if its feature gate is off.
            if resource in self._queues:
                self._queues[resource](key)

    def wake_refused(self, root: Key) -> None:
        """Queue all owners that wait for the root to be deleted."""
        self.wake([*self._refused.pop(root, ()), *self._surplus.pop(root, ())])

    def wake_surplus(self, root: Key, free: int) -> None:
        """Queue as many owners of a full tree as it has places now."""
        woken = list(islice(self._surplus.get(root, {}), max(0, free)))
        for it in woken:
            self._drop(self._surplus, root, it)
        self.wake(woken)

    def _drop(self, waiting: dict[Key, dict[OwnerKey, None]], root: Key, owner: OwnerKey) -> None:
        owners = waiting.get(root)
        if owners is not None:
            owners.pop(owner, None)
            if not owners:
                del waiting[root]
