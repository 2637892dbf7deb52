"""All situations, by their subjects."""

from collections.abc import Mapping

from e2e.kubernetes.upstream.situations import (
    basic_topology,
    claims,
    gangs,
    preemption,
    queueing,
    topology,
    tree_preemption,
    tree_topology,
    trees,
    victims,
)
from e2e.kubernetes.upstream.situations.model import Situation

SUBJECTS: Mapping[str, tuple[Situation, ...]] = {
    "gangs and basic groups": gangs.SITUATIONS,
    "trees": trees.SITUATIONS,
    "groups that change while they wait": queueing.SITUATIONS,
    "gangs in one topology domain": topology.SITUATIONS,
    "basic groups in one topology domain": basic_topology.SITUATIONS,
    "trees in topology domains": tree_topology.SITUATIONS,
    "preemption": preemption.SITUATIONS,
    "preemption and trees": tree_preemption.SITUATIONS,
    "preemption by single pods": victims.SITUATIONS,
    "claims": claims.SITUATIONS,
}
