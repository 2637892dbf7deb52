"""Placement of pods without a group by kube-scheduler's default scores, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.groups.forest import Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement
from scheduler.core.search.scored_nodes import ScoredNodes
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey, PodInfo
from scheduler.core.values.search_budget import SearchBudget


def only_resources_change(state: State, shape: Shape) -> bool:
    """Return True if a placed pod changes nothing for the next one but free resources."""
    plain = not (shape.needs_devices or shape.volumes or shape.score_match_ids)
    return plain and shape.requirements.stage is None and state.framework.independent(shape)


def place_by_score(state: State, pods: Sequence[Pod], budget: SearchBudget) -> list[Placement]:
    """Return placements for the first of the pods, which are equal, in this order. Changes nothing.

    If a pod does not fit, neither it nor any pod after it has a placement.
    """
    first = pods[0]
    shapes = frozenset((first.shape,))
    with (
        state.nodes.trial(),
        state.nominations.respected(first.key, first.priority, shapes=shapes),
    ):
        if only_resources_change(state, first.shape):
            rows = _together(state, pods, budget)
        else:
            rows = _in_turn(state, pods, budget)
        placed = list(zip(pods, rows, strict=False))
        devices = _devices(state, placed)
    return [_placement(pod, row, devices) for pod, row in placed]


def _together(state: State, pods: Sequence[Pod], budget: SearchBudget) -> list[int]:
    """Return the rows of pods that only resources distinguish; fewer if not all fit."""
    nodes, found = ScoredNodes(state, pods[0].shape), list[int]()
    nodes.look_ahead(len(pods))
    for pod in pods:
        budget.pause()
        at = nodes.best(pod.info)
        if at is None:
            break
        nodes.take(at, pod.info)
        found.append(int(nodes.rows[at]))
    return found


def _in_turn(state: State, pods: Sequence[Pod], budget: SearchBudget) -> list[int]:
    """Return the rows of the pods, each placed in the open trial before the next."""
    placed: list[tuple[int, PodInfo]] = []
    for pod in pods:
        budget.pause()
        nodes = ScoredNodes(state, pod.shape, placed=placed)
        at = nodes.best(pod.info)
        if at is None:
            break
        row = int(nodes.rows[at])
        if not state.framework.reserve(pod.shape, np.array([row]), np.ones(1, np.int64)):
            break
        placed.append((row, pod.info))
    return [row for row, _ in placed]


def _devices(state: State, placed: Sequence[tuple[Pod, int]]) -> Mapping[ClaimKey, Allocation]:
    """Return the open trial's allocations for the claims of these pods."""
    if not placed or not placed[0][0].shape.needs_devices:
        return {}
    return state.framework.plugins.dynamic_resources.allocations(
        (pod.shape, row, pod.info.device_claims) for pod, row in placed
    )


def _placement(pod: Pod, row: int, devices: Mapping[ClaimKey, Allocation]) -> Placement:
    own = {key: devices[key] for key in pod.info.device_claims if key in devices}
    return Placement(
        pod.key, (pod,), (row,), 1, 0, devices=own if pod.shape.needs_devices else None
    )
