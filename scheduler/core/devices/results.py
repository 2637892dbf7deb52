"""Allocations of a pod's claims, from a solution of the allocator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scheduler.core.devices.allocator import Pick, PodAsks
from scheduler.core.devices.layouts import DeviceView
from scheduler.core.devices.requests import RequestOption, ResolvedAsk
from scheduler.core.values.devices import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    DeviceInfo,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import NEWEST_RELEASE, Expression, NodeTerm, Release

NODE_NAME = "metadata.name"
"""Field of a node by which an allocation states that only one node can use it."""


_CONCISE: Final = (1, 37)
"""Release since which a configuration for all requests names none, and none comes twice."""


def allocations(
    pod: PodAsks,
    picks: Sequence[Pick],
    view: DeviceView,
    node: str,
    release: Release = NEWEST_RELEASE,
) -> tuple[Allocation, ...]:
    """Return the allocation of each claim of the pod on the node, in the order of its claims.

    They have the form that kube-scheduler of this release gives them.
    """
    concise = release >= _CONCISE
    return tuple(
        _allocation(ask, [pick for pick in picks if pick.claim == index], view, node, concise)
        for index, ask in enumerate(pod)
    )


def is_local(allocation: Allocation) -> bool:
    """Return True if only one node can use the allocation."""
    terms = allocation.nodes or ()
    return any(field.key == NODE_NAME for term in terms for field in term.fields)


def _allocation(
    ask: ResolvedAsk,
    picks: Sequence[Pick],
    view: DeviceView,
    node: str,
    concise: bool,
) -> Allocation:
    chosen = {pick.wanted.option.name: pick.wanted for pick in picks}
    return Allocation(
        tuple(_device(pick, view) for pick in picks),
        _configuration(ask, chosen, concise=concise),
        _nodes((view.sources[pick.position] for pick in picks), node),
    )


def _device(pick: Pick, view: DeviceView) -> AllocatedDevice:
    option = pick.wanted.option
    _, device = view.sources[pick.position]
    return AllocatedDevice(
        option.name,
        view.keys[pick.position],
        option.admin,
        option.tolerations,
        # The writer replaces an empty share ID by a random one; None means not shared.
        None if pick.consumed is None else "",
        pick.consumed or (),
        device.binding_conditions,
        device.binding_failures,
    )


def _configuration(
    ask: ResolvedAsk, chosen: Mapping[str, RequestOption], *, concise: bool
) -> tuple[AllocatedConfig, ...]:
    if not ask.ask.config and not any(each.config for each in ask.classes):
        return ()
    of_claim = _of_claim(ask, chosen)
    if not concise:
        return (*_of_classes(ask, chosen.values()), *of_claim)
    found = (*_of_classes(ask, chosen.values()), *dict.fromkeys(of_claim))
    return tuple(
        replace(each, config=replace(each.config, requests=()))
        if _names_all(each.config.requests, ask, chosen)
        else each
        for each in found
    )


def _names_all(
    requests: tuple[str, ...], ask: ResolvedAsk, chosen: Mapping[str, RequestOption]
) -> bool:
    """Return True if these are all requests of the claim, or the chosen options of them."""
    names = {*requests}
    return all(
        each.name in names or any(it.name in names & chosen.keys() for it in each.options)
        for each in ask.ask.requests
    )


def _of_classes(ask: ResolvedAsk, chosen: Iterable[RequestOption]) -> Iterator[AllocatedConfig]:
    """Yield the configuration of each class once, for all requests that use it."""
    requests: dict[str, tuple[str, ...]] = {}
    for wanted in chosen:
        name = wanted.option.device_class
        requests[name] = (*requests.get(name, ()), wanted.option.name)
    classes = {each.name: each for each in ask.classes}
    for name, named in requests.items():
        for config in classes[name].config:
            yield AllocatedConfig(replace(config, requests=named), of_class=True)


def _of_claim(ask: ResolvedAsk, chosen: Iterable[str]) -> Iterator[AllocatedConfig]:
    """Yield the claim's own configuration, as upstream does.

    One that names no request comes once, the others once for each request that they name.
    """
    # A configuration may name a request with alternatives as REQ or as REQ/SUB.
    used = [{name, name.partition("/")[0]} for name in chosen]
    for config in ask.ask.config:
        times = (
            1 if not config.requests else sum(bool(names & {*config.requests}) for names in used)
        )
        for _ in range(times):
            yield AllocatedConfig(config, of_class=False)


def _nodes(
    sources: Iterable[tuple[SliceInfo, DeviceInfo]], node: str
) -> tuple[NodeTerm, ...] | None:
    """Return the terms of the nodes that can use all of the devices, or None for all nodes."""
    expressions: dict[Expression, None] = {}
    fields: dict[Expression, None] = {}
    for of_slice, device in sources:
        scope = of_slice.scope or device.scope or NodeScope()
        if scope.name or device.binds_to_node:
            # One local device ties the claim to this node, whatever the others select.
            return (NodeTerm((), (Expression(NODE_NAME, "In", (node,)),)),)
        # As upstream, the requirements of all node selectors together, each once.
        for term in scope.terms or ():
            expressions |= dict.fromkeys(term.expressions)
            fields |= dict.fromkeys(term.fields)
    return (NodeTerm(tuple(expressions), tuple(fields)),) if expressions or fields else None
