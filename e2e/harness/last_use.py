"""The order of tests by the cluster that they use, and the end of a shared one after its last test.

An idle control plane costs a tenth of a processor, and a run of everything has many clusters.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

KEY = pytest.StashKey["LastUse"]()
SHARED = ("cluster", "with_kube_scheduler")
"""Fixtures of the session in e2e/conftest.py, each a cluster."""


class LastUse:
    """What must end once the last test that uses a shared cluster is over."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        self._ends = {name: ExitStack() for name in SHARED}

    def order(self, items: list[pytest.Item]) -> None:
        """Group the tests by cluster, the shared ones first, and within one by folder.

        Otherwise the order stays as it is, which is random.
        """
        clusters = [cluster_of(item) for item in items]
        self._users = Counter(name for name in clusters if name in SHARED)
        first: dict[tuple[str, str], int] = {}
        for at, (name, item) in enumerate(zip(clusters, items, strict=True)):
            first.setdefault((name, str(item.path.parent)), at)

        def rank(at: int) -> tuple[int, str, int]:
            name = clusters[at]
            shared = SHARED.index(name) if name in SHARED else len(SHARED)
            return shared, name, first[name, str(items[at].path.parent)]

        items[:] = [items[at] for at in sorted(range(len(items)), key=rank)]

    def end_of(self, name: str) -> ExitStack:
        """Return the stack of what ends with the cluster."""
        return self._ends[name]

    def done(self, item: pytest.Item) -> None:
        """End the cluster of this test, if it was the last that uses it."""
        name = cluster_of(item)
        if name in SHARED:
            self._users[name] -= 1
            if self._users[name] == 0:
                self._ends[name].close()


def cluster_of(item: pytest.Item) -> str:
    """Return the shared fixture that the test uses, or where its own cluster is defined.

    A test without a cluster has "".
    """
    found = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    definitions: Sequence[pytest.FixtureDef[object]] = found.get("cluster", ())
    if SHARED[1] in found:
        return SHARED[1]
    if not definitions:
        return ""
    place = definitions[-1].baseid
    return SHARED[0] if place == "e2e" else place
