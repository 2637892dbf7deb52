"""Pods without a group: as kube-scheduler places them by default, next to gangs that are packed."""

from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job, pod
from kube.client.resources import JOBS, PODS, SERVICES

ZONE = "topology.kubernetes.io/zone"


def service(selector: Json) -> Json:
    return {"metadata": {"name": "web"}, "spec": {"selector": selector, "ports": [{"port": 80}]}}


def labelled(name: str, room: str, labels: Json) -> Json:
    made = pod(name, room)
    made["metadata"]["labels"] |= labels
    return made


async def test_pods_of_a_service_spread_over_zones_and_others_do_not(env: Environment) -> None:
    large = await env.add_node(cpu=60, labels={ZONE: f"{env.name}-a"})
    small = await env.add_node(cpu=12, labels={ZONE: f"{env.name}-b"})
    await env.create(SERVICES, service({"app": "web"}))
    for app in ("other", "web"):
        for number in range(4):
            await env.create(PODS, labelled(f"{app}-{number}", env.name, {"app": app}))
        await env.runs(f"app={app}", 4)

    nodes = {
        app: sorted(each["spec"]["nodeName"] for each in await env.pods(f"app={app}"))
        for app in ("other", "web")
    }

    # The large node is emptier all the time.
    assert nodes["other"] == [large] * 4
    assert nodes["web"] == sorted([large, large, small, small])


async def test_a_gang_is_packed_where_single_pods_are_not(env: Environment) -> None:
    nodes = [await env.add_node(cpu=8) for _ in range(3)]
    for number in range(2):
        await env.create(PODS, labelled(f"single-{number}", env.name, {"app": "single"}))
    await env.runs("app=single", 2)
    await env.create(JOBS, job("gang", env.name, pods=3))
    await env.runs(of_job("gang"), 3)

    singles = {each["spec"]["nodeName"] for each in await env.pods("app=single")}
    gang = {each["spec"]["nodeName"] for each in await env.pods(of_job("gang"))}

    assert len(singles) == 2
    assert len(gang) == 1
    assert gang < singles < set(nodes)
