"""Plays an instance: decides all roots, checks each decision, and lets victims end."""

from collections.abc import Mapping
from typing import Any

from kube.client.resources import RESOURCE_CLAIMS
from tests.scheduler.crossings.build import Built, pod_name
from tests.scheduler.crossings.checks import complaints, move_complaints
from tests.scheduler.crossings.cluster import Cluster
from tests.scheduler.crossings.objects import claim_object

MOST = 16
"""Maximum number of decisions of an instance."""


def play(instance: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the violations, and all decisions."""
    built, cluster, decisions = Built(instance), Cluster(instance), list[dict[str, Any]]()
    while len(decisions) < MOST:
        key = built.next()
        if key is None:
            if not _victims_end(built, cluster):
                break
            continue
        decision = built.decide(key)
        decisions.append(decision)
        found = complaints(cluster, decision)
        if "moves" in decision:
            starts, *moves = decision["moves"]
            found += move_complaints(cluster, starts, moves)
        if found:
            return [f"{key[2]}: {it}" for it in found], decisions
        cluster.apply(decision)
    return [], decisions


def _victims_end(built: Built, cluster: Cluster) -> bool:
    """Delete the terminating pods; return True if there were any."""
    gone = [it for it in cluster.pods.values() if it.get("deleted")]
    for pod in gone:
        claims = cluster.users.get(pod["name"], ())
        cluster.release(pod["name"])
        built.delete_pod(pod["name"])
        for name in claims:
            claim = cluster.claims.get(name)
            if claim is None or claim.get("owner") == pod["name"]:
                built.delete_claim(name)
            elif name not in cluster.given:
                free = {key: value for key, value in claim.items() if key != "given"}
                built.deliver(RESOURCE_CLAIMS, claim_object(free, cluster.instance))
    for held in built.state.pods.values():
        if held.info.expected and held.assumed:
            name = pod_name(held)
            cluster.pods.setdefault(name, cluster.pod(name) | {"node": held.node})
    return bool(gone)
