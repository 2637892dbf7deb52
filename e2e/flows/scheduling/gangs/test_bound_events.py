"""The scheduler that binds a pod records an event with kube-scheduler's text."""

from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, pod, pod_group
from kube.client.resources import EVENTS, PODS


async def test_each_pod_gets_its_event(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(POD_GROUPS, pod_group("g", 2))
    for name, group in (("alone", None), ("one", "g"), ("other", "g")):
        await env.create(PODS, pod(name, env.name, group=group))

    async def said() -> bool:
        found = (await env.client.list(EVENTS, env.name))["items"]
        # The group has an event of this reason, too.
        about_pods = [it for it in found if it["involvedObject"]["kind"] == PODS.kind]
        events = {it["message"] for it in about_pods if it["reason"] == "Scheduled"}
        nodes = {it["metadata"]["name"]: it["spec"].get("nodeName") for it in await env.pods()}
        wanted = {
            f"Successfully assigned {env.name}/{name} to {node}" for name, node in nodes.items()
        }
        return len(wanted) == 3 and events == wanted

    await env.until("the events", said, 30)
