"""One node with devices: the common helpers of the allocator's tables."""

import itertools
from collections.abc import Collection, Iterable, Mapping

from scheduler.core.devices.allocator import (
    MOST_STEPS,
    DevicesRefused,
    PodAsks,
    Solution,
    allocate,
)
from scheduler.core.devices.allowance import DeviceAllowance
from scheduler.core.devices.contents import Contents
from scheduler.core.devices.kinds import watched_by
from scheduler.core.devices.layouts import DeviceLayout, DeviceUsage, DeviceView
from scheduler.core.devices.pools import gather
from scheduler.core.devices.requests import ResolvedAsk, resolve
from scheduler.core.devices.sortings import Sorting
from scheduler.core.values.device_asks import Amounts, Ask
from scheduler.core.values.devices import DeviceClassInfo, NodeScope, SliceInfo
from tests.scheduler.devices.builders import CLASSES, HERE, evaluate


def view_of(
    slices: Iterable[SliceInfo], *, node: str = HERE, inside: Collection[NodeScope] = ()
) -> DeviceView:
    """Return the node's view; `inside` are the label scopes that include it."""

    def admits(scope: NodeScope) -> bool:
        return scope.everywhere or scope.name == node or scope in inside

    every = list(slices)

    def counts(each: SliceInfo) -> bool:
        scopes = [each.scope] if each.scope else [d.scope or NodeScope() for d in each.devices]
        return bool(each.counters) or any(map(admits, scopes))

    def whole(key: tuple[str, str]) -> list[SliceInfo]:
        return [each for each in every if each.pool_key == key]

    return DeviceView.of(gather(filter(counts, every), whole), admits)


def layout_of(view: DeviceView, asks: Iterable[ResolvedAsk]) -> DeviceLayout:
    contents = Contents()
    seen = contents.seen(view)
    sorting = Sorting(watched_by(asks), contents, evaluate, DeviceAllowance(), itertools.count())
    return sorting.layout(seen)


def resolved(asks: Iterable[Ask], classes: Mapping[str, DeviceClassInfo] = CLASSES) -> PodAsks:
    found = []
    for each in asks:
        answer = resolve(each, classes)
        assert not isinstance(answer, str), answer
        found.append(answer)
    return tuple(found)


def usage_of(
    view: DeviceView, used: str = "", shares: Mapping[str, Amounts] | None = None
) -> DeviceUsage:
    """Return the usage: devices by name, and the used amounts of shared ones."""
    at = {key[2]: position for key, position in view.positions.items()}
    given = {at[name]: of for name, of in (shares or {}).items()}
    return DeviceUsage(sum(1 << at[name] for name in used.split())).with_shares(given)


def outcome(
    slices: Iterable[SliceInfo],
    *pods: Iterable[Ask],
    used: str = "",
    shares: Mapping[str, Amounts] | None = None,
    classes: Mapping[str, DeviceClassInfo] = CLASSES,
    inside: Collection[NodeScope] = (),
    steps: int = MOST_STEPS,
    all_with_room: bool = False,
) -> tuple[Solution | DevicesRefused, DeviceView]:
    """Return the allocator's result for these pods, each with its claims."""
    view = view_of(slices, inside=inside)
    asked = [resolved(pod, classes) for pod in pods]
    layout = layout_of(view, [each for pod in asked for each in pod])
    usage = usage_of(view, used, shares)
    return allocate(layout, usage, asked, steps=steps, all_with_room=all_with_room), view


def devices(answer: Solution | DevicesRefused, view: DeviceView) -> str:
    """Format the result: claims joined by /, pods by //; or the reason of a failure."""
    if isinstance(answer, DevicesRefused):
        return answer.reason
    pods = []
    for picks in answer.pods:
        claims: dict[int, list[str]] = {}
        for pick in picks:
            claims.setdefault(pick.claim, []).append(view.keys[pick.position][2])
        pods.append(" / ".join(" ".join(claims[claim]) for claim in sorted(claims)))
    return " // ".join(pods)
