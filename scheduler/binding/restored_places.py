"""The places that a Reservation holds for expected pods, as the pods of now have them.

Pods that came since then use some of the places, and each process counts again which expected pods
are left. So the places of a kind belong to its pods in this order: pods that came later and are
bound there, pods that wait, pods that are still expected. Pods of the decision itself, and those
bound before it, have places of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from api.constants import POD_GROUP
from scheduler.binding.reservations import ReservedPod
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.expected.pod_info import UID_PREFIX, parse
from scheduler.expected.pods import ExpectedPods

_Kind = tuple[GroupKey, str]


def still_held(
    state: State, expected: ExpectedPods, reserved: Iterable[ReservedPod]
) -> Iterator[ReservedPod]:
    """Yield the reserved pods, with places of expected ones given to the pods that exist now."""
    places: dict[_Kind, Counter[str]] = {}
    named: dict[str, ReservedPod] = {}
    for each in reserved:
        if each.uid.startswith(UID_PREFIX):
            key, kind, _ = parse(each.uid)
            places.setdefault(((POD_GROUP.kind, *key), kind), Counter())[each.node] += 1
        else:
            named[each.uid] = each
            yield each
    for (group, name), nodes in places.items():
        yield from _of_kind(state, expected, (group, name), nodes, named)


def _of_kind(
    state: State,
    expected: ExpectedPods,
    kind: _Kind,
    nodes: Counter[str],
    named: Mapping[str, ReservedPod],
) -> Iterator[ReservedPod]:
    found = next((each for each in expected.kinds(kind[0]) if each.name == kind[1]), None)
    # The group no longer expects such pods: their places are free.
    if found is None:
        return
    waiting: list[str] = []
    for uid in found.came:
        pod = state.pods.get(uid)
        if pod is None:
            continue
        own = named.get(uid)
        # Pods of the decision itself never had one of these places; only a later pod uses one.
        if own is not None and own.later:
            node = pod.info.node or own.node
            nodes[node] -= nodes[node] > 0
        elif own is None and pod.waiting:
            waiting.append(uid)
    free = sorted(nodes.elements())
    # With fewer pods than places the rest is free; with fewer places the last pods get none.
    for uid, node in zip((*waiting, *found.expected), free, strict=False):
        yield ReservedPod(uid, node)
