"""Over all filters at once: the nodes that would take a pod are those of kube-scheduler."""

import pytest

from e2e.controlplane.commands import Options
from e2e.controlplane.controlplane import ControlPlane
from e2e.differential import answers
from e2e.differential.extender import Extender
from e2e.differential.generator import scenario
from scheduler.core import company, filters, ports, promises, storage

SEED = 20260601

EVERY_REASON = {
    *(reason for reason in company.REASONS if reason),
    *(storage.UNBOUND, storage.AFFINITY, promises.NO_VOLUME, storage.ZONE, storage.LIMIT),
    *(storage.ONE_POD, filters.UNSCHEDULABLE, filters.AFFINITY, filters.TOO_MANY_PODS),
    *(ports.REASON, "node(s) had untolerated taint", "Insufficient cpu", "Insufficient memory"),
    *("Insufficient example.com/gpu", "Insufficient ephemeral-storage"),
}


@pytest.mark.timeout(1200)
async def test_the_feasible_nodes_are_those_of_kube_scheduler(server_kind: str, long: bool) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    pairs, feasible, differences, reasons = 0, 0, list[str](), set[str]()
    with Extender() as extender:
        options = Options(
            controllers=False, kwok=False, jobset=False, scheduler=True, taint_nodes=False,
            extender=extender.url,
        )  # fmt: skip
        async with ControlPlane(options) as plane, plane.client() as rest:
            for number in range(40 if long else 1):
                made = scenario(SEED, number)
                await answers.create(rest, made)
                theirs = await answers.kube(rest, extender, made.candidates)
                ours, told = await answers.muster(rest, made)
                doubtful = [pod for pod in made.candidates if ours[_key(pod)] != theirs[_key(pod)]]
                # Its caches may have been behind the first time.
                theirs |= await answers.kube(rest, extender, doubtful)
                for key, nodes in ours.items():
                    feasible += len(nodes)
                    reasons |= told[key]
                    if nodes != theirs[key]:
                        differences.append(
                            f"scenario {number} {key}: only ours {sorted(nodes - theirs[key])},"
                            f" only theirs {sorted(theirs[key] - nodes)}; {sorted(told[key])}"
                        )
                pairs += len(made.candidates) * len(made.nodes)
                await answers.clear(rest, made)

    assert not differences, "\n".join(differences)
    assert pairs >= (6000 if long else 150)
    # What is compared is worth comparing: nodes on both sides, and refusals for every reason.
    assert 0.05 < feasible / pairs < 0.9
    assert not long or _without_names(reasons) >= EVERY_REASON
    assert not long or any(map(promises.is_short, reasons))


def _without_names(reasons: set[str]) -> set[str]:
    return {reason.partition(" {")[0] for reason in reasons}


def _key(pod: answers.Json) -> answers.Key:
    return (pod["metadata"]["namespace"], pod["metadata"]["name"])
