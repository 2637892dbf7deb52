"""Pages of the list of workloads, by rights and filters. Rows are created when they are shown."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final, Literal

from console.base.messages import WorkloadRow, WorkloadsPage, WorkloadStatus
from console.base.protocols import RefusedError, Viewer
from console.base.times import rfc3339
from console.views import workload as workload_view
from console.views.workload import Subject
from console.views.workload_index import Entry, WorkloadIndex
from kube.base.clock import Clock
from kube.concurrency.pace import Pace

_STRIDE: Final = 64
"""Workloads that are filtered between two readings of the clock."""

Fresh = Callable[[], Awaitable[object]]
"""Wait until the state may be read, and take its changes. Raises RefusedError."""

Order = tuple[float, str]
"""The sort key of a row: 0 or the negative time of the end, then the ID."""


@dataclass(frozen=True, slots=True)
class WorkloadFilters:
    """The viewer's filters. `kind` is that of the owner, `node` one that has a pod of it."""

    search: str = ""
    namespace: str = ""
    kind: str = ""
    node: str = ""
    status: Literal["", WorkloadStatus] = ""

    def folded(self) -> WorkloadFilters:
        """Return the filters in the form in which `accept` compares them."""
        search, kind = self.search.strip().casefold(), self.kind.strip().casefold()
        return replace(self, search=search, kind=kind)

    def accept(self, entry: Entry, id_: str) -> bool:
        """Return true if the workload passes; its status and node are not checked here."""
        if self.namespace and entry.namespace != self.namespace:
            return False
        if self.kind and entry.kind.casefold() != self.kind:
            return False
        return not self.search or self.search in id_.casefold()

    def order(self, entry: Entry, id_: str) -> Order:
        """Return the sort key: if only finished ones are listed, the last to end is the first."""
        return (-entry.ended if self.status == "finished" else 0.0, id_)


async def page(
    index: WorkloadIndex,
    viewer: Viewer,
    filters: WorkloadFilters,
    after: str,
    limit: int,
    *,
    fresh: Fresh,
    clock: Clock,
) -> WorkloadsPage:
    """Return the rows after the cursor by rights and filters. Raises RefusedError.

    Gives way to other tasks meanwhile, and calls `fresh` after that. Costs O(workloads).
    """
    if filters.namespace and not viewer.sees(filters.namespace):
        raise RefusedError(403, "You do not have access to this namespace.")
    start, filters = _cursor(after), filters.folded()
    rest = _rest(fresh, clock)
    index.expire()
    counts: Counter[WorkloadStatus] = Counter()
    found: list[Order] = []
    for number, id_ in enumerate(_seen(index, viewer, filters)):
        if number % _STRIDE == 0:
            await rest()
        entry = index.entries.get(id_)
        if entry is None or not filters.accept(entry, id_):
            continue
        counts[entry.status] += 1
        order = filters.order(entry, id_)
        if filters.status in ("", entry.status) and (start is None or order > start):
            _keep_first(found, order, limit + 1)
    return WorkloadsPage(
        items=[row async for row in _rows(index, found[:limit], rest)],
        next=_text(found[limit - 1]) if len(found) > limit else None,
        total=counts[filters.status] if filters.status else counts.total(),
        running=counts["running"],
        waiting=counts["waiting"],
        finished=counts["finished"],
    )


def _rest(fresh: Fresh, clock: Clock) -> Callable[[], Awaitable[None]]:
    """Return a function that gives way if the slice of this page is over."""
    pace = Pace("workloads", clock)
    pace.begin()

    async def rest() -> None:
        if pace.over(()):
            await pace.give_way()
            await fresh()
            pace.begin()

    return rest


def _seen(index: WorkloadIndex, viewer: Viewer, filters: WorkloadFilters) -> Iterator[str]:
    """Yield the IDs of the namespaces that the viewer sees, in order."""
    if filters.node:
        state = index.cluster.state
        keys = {state.entity(pod) for pod in state.pods_on(filters.node)}
        found = {index.id_of[key] for key in keys if key in index.id_of}
        yield from sorted(id_ for id_ in found if viewer.sees(index.entries[id_].namespace))
        return
    for namespace in [filters.namespace] if filters.namespace else list(index.namespaces):
        if viewer.sees(namespace) and namespace in index.ids:
            yield from index.ids[namespace].in_order()


async def _rows(
    index: WorkloadIndex, found: Iterable[Order], rest: Callable[[], Awaitable[None]]
) -> AsyncIterator[WorkloadRow]:
    for _, id_ in found:
        await rest()
        # The workload may have been dropped meanwhile.
        entry = index.entries.get(id_)
        if entry is not None:
            yield _row(index, id_, entry)


def _row(index: WorkloadIndex, id_: str, entry: Entry) -> WorkloadRow:
    """Return the row, which is kept until the workload changes."""
    if entry.row is not None:
        return entry.row
    row = _live_row(index, id_, entry) if entry.roots else _bare_row(id_, entry)
    # Whether a waiting workload preempts depends on other workloads, too.
    if entry.status != "waiting":
        entry.row = row
    return row


def _live_row(index: WorkloadIndex, id_: str, entry: Entry) -> WorkloadRow:
    groups = tuple(index.groups(entry))
    subject = Subject(entry.namespace, entry.kind, entry.name, groups, entry.pod)
    tree = workload_view.tree_of(index.cluster, subject, most_pods=0)
    row = _bare_row(id_, entry)
    row.state = entry.state or tree.state
    row.pods, row.minimum = tree.counts.pods, tree.counts.minimum
    row.bound, row.running = tree.counts.bound, tree.counts.running
    row.priority = (
        entry.pod.priority if entry.pod else max((each.priority for each in groups), default=0)
    )
    return row


def _bare_row(id_: str, entry: Entry) -> WorkloadRow:
    return WorkloadRow(
        id=id_,
        namespace=entry.namespace,
        kind=entry.kind,
        name=entry.name,
        status=entry.status,
        state=entry.state,
        priority=0,
        pods=entry.pods,
        bound=0,
        running=0,
        minimum=None,
        created=entry.created or None,
        ended=rfc3339(entry.ended) if entry.ended else None,
        deleted=not entry.roots,
    )


def _keep_first(found: list[Order], order: Order, most: int) -> None:
    """Add the order if it is one of the first ones. Most come in order."""
    if len(found) == most and order > found[-1]:
        return
    insort(found, order)
    del found[most:]


def _text(order: Order) -> str:
    return f"{order[0]!r}:{order[1]}"


def _cursor(after: str) -> Order | None:
    """Return the sort key of the last row. Raises RefusedError."""
    if not after:
        return None
    number, _, id_ = after.partition(":")
    try:
        at = float(number)
    except ValueError:
        at = float("nan")
    if not (isfinite(at) and id_):
        raise RefusedError(400, "The cursor is invalid.")
    return at, id_
