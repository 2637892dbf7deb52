"""All filters at once: the nodes that a pod fits equal those of kube-scheduler."""

from collections.abc import Iterable

import pytest

from e2e.kubernetes.scheduler import answers
from e2e.kubernetes.scheduler.generator import scenario
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler
from scheduler.core.framework import (
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
)
from scheduler.core.volumes import volume_zone

SEED = 20260601

EVERY_REASON = {
    inter_pod_affinity.AFFINITY,
    inter_pod_affinity.ANTI_AFFINITY,
    inter_pod_affinity.EXISTING_ANTI_AFFINITY,
    node_affinity.REASON,
    node_declared_features.REASON,
    node_ports.REASON,
    *(
        f"{node_resources_fit.INSUFFICIENT}{name}"
        for name in ("cpu", "memory", "ephemeral-storage")
    ),
    f"{node_resources_fit.INSUFFICIENT}example.com/gpu",
    node_resources_fit.TOO_MANY_PODS,
    node_unschedulable.REASON,
    node_volume_limits.REASON,
    pod_topology_spread.MISSING_LABEL,
    pod_topology_spread.REASON,
    taint_toleration.REASON.strip(),
    volume_binding.NODE_AFFINITY,
    volume_binding.NO_SPACE,
    volume_binding.NO_VOLUME,
    volume_binding.UNBOUND,
    volume_restrictions.NO_DISK,
    volume_restrictions.REASON,
    volume_zone.REASON,
}


@pytest.mark.timeout(1200)
async def test_the_feasible_nodes_are_those_of_kube_scheduler(server_kind: str, long: bool) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    pairs, feasible, differences, reasons = 0, 0, list[str](), set[str]()
    disks = set[str]()
    async with kube_scheduler() as (_, rest, extender):
        release = await rest.release()
        for number in range(15 if long else 1):
            made = scenario(SEED, number, release)
            await answers.create(rest, made)
            theirs = await answers.kube(rest, extender, made.candidates)
            ours, told = await answers.muster(rest, made)
            doubtful = [pod for pod in made.candidates if ours[_key(pod)] != theirs[_key(pod)]]
            # Its caches may have been behind the first time.
            theirs |= await answers.kube(rest, extender, doubtful)
            for key, nodes in ours.items():
                feasible += len(nodes)
                reasons |= told[key]
                if volume_restrictions.NO_DISK in told[key]:
                    disks |= _disks(made.candidates, key)
                if nodes != theirs[key]:
                    differences.append(
                        f"scenario {number} {key}: only ours {sorted(nodes - theirs[key])},"
                        f" only theirs {sorted(theirs[key] - nodes)}; {sorted(told[key])}"
                    )
            pairs += len(made.candidates) * len(made.nodes)
            await answers.clear(rest, made)

    assert not differences, "\n".join(differences)
    assert pairs >= (2200 if long else 150)
    # The comparison must be meaningful: nodes on both sides, and rejections for every reason.
    assert 0.05 < feasible / pairs < 0.9
    # Earlier API servers reject pods that need a declared feature.
    later = set() if release >= (1, 36) else {node_declared_features.REASON}
    assert not long or _without_names(reasons) >= EVERY_REASON - later
    assert not long or disks >= {"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"}


def _without_names(reasons: set[str]) -> set[str]:
    """Return the reasons without the names of taints."""
    return {reason.partition(" {")[0] for reason in reasons}


def _disks(pods: Iterable[answers.Json], key: answers.Key) -> set[str]:
    """Return the kinds of the volumes that the pod names."""
    pod = next(pod for pod in pods if _key(pod) == key)
    return {kind for volume in pod["spec"].get("volumes", ()) for kind in volume}


def _key(pod: answers.Json) -> answers.Key:
    return (pod["metadata"]["namespace"], pod["metadata"]["name"])
