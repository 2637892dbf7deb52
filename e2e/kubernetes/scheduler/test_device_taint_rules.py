"""DeviceTaintRules exclude the same devices for Muster as for kube-scheduler.

Neither the kind nor its gate is on by default before Kubernetes 1.37.
"""

import asyncio
from typing import Any

import pytest

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import before
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.scheduler import device_answers as answers
from e2e.kubernetes.scheduler.device_answers import RULES, Answer, Decisions, Json, Ours
from e2e.kubernetes.scheduler.extender import Extender
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler
from e2e.kubernetes.scheduler.test_device_faults import GPU, NIC, node_slice, scenario
from kube.client.client import Client
from scheduler.core.state.state import State
from scheduler.watch.informers import SchedulerInformers

BROKEN = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
BOTH = {"n0", "n1"}
EVERYTHING: Json = {"deviceSelector": {}}
_GATES, _VERSIONS = {"DRADeviceTaintRules": True}, ("resource.k8s.io/v1beta2=true",)
"""What has to be switched on before 1.37, where rules are served by default."""

CASES: dict[str, tuple[list[Json], Json, set[str]]] = {
    "no rule": ([], {}, BOTH),
    "no selector": ([{"taint": BROKEN}], {}, set() if before("1.37") else BOTH),
    "an empty selector": ([{"deviceSelector": {}, "taint": BROKEN}], {}, set()),
    "the driver": ([{"deviceSelector": {"driver": GPU}, "taint": BROKEN}], {}, set()),
    "another driver": ([{"deviceSelector": {"driver": NIC}, "taint": BROKEN}], {}, BOTH),
    "a pool": ([{"deviceSelector": {"pool": "n0"}, "taint": BROKEN}], {}, {"n1"}),
    "one of two devices": ([{"deviceSelector": {"device": "a"}, "taint": BROKEN}], {}, BOTH),
    "both devices of a pool": (
        [
            {"deviceSelector": {"pool": "n1", "device": each}, "taint": BROKEN | {"effect": effect}}
            for each, effect in (("a", "NoSchedule"), ("b", "NoExecute"))
        ],
        {},
        {"n0"},
    ),
    "an effect that keeps nobody away": ([{"taint": BROKEN | {"effect": "None"}}], {}, BOTH),
    "tolerated": (
        [EVERYTHING | {"taint": BROKEN}],
        {"tolerations": [{"key": "broken", "operator": "Equal", "value": "yes"}]},
        BOTH,
    ),
    "one of two tolerated": (
        [
            EVERYTHING | {"taint": BROKEN},
            {"deviceSelector": {"pool": "n1"}, "taint": {**BROKEN, "key": "hot"}},
        ],
        {"tolerations": [{"key": "broken", "operator": "Exists"}]},
        {"n0"},
    ),
}
"""Rules, the request's fields besides its class, and the nodes that both must find."""


async def test_rules_taint_the_devices_that_kube_scheduler_takes_for_tainted(
    server_kind: str,
) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    found = {}
    async with (
        kube_scheduler(
            feature_gates=_GATES if before("1.37") else {},
            runtime_config=_VERSIONS if before("1.37") else (),
        ) as (plane, rest, extender),
        answers.decisions(rest) as seen,
    ):
        for number, (name, case) in enumerate(CASES.items()):
            found[name] = await _compare(rest, extender, seen, f"rules-{number}", case)
        await _are_watched(plane, rest)

    assert found == {name: (nodes, nodes) for name, (_, _, nodes) in CASES.items()}


async def _are_watched(plane: ControlPlane, rest: Rest) -> None:
    """Check that changes of rules reach the state of a running scheduler."""
    async with await Client.connect(plane.kubeconfig) as client:
        state = State()
        informers = SchedulerInformers(client, state)
        task = asyncio.create_task(informers.run_devices())
        await asyncio.wait_for(informers.devices_known.wait(), 30)
        rules = state.devices.slices.rules.all

        async def pools(*wanted: str | None) -> None:
            async def seen() -> bool:
                return [rule.pool for rule in rules.values()] == list(wanted)

            await eventually(seen, f"rules for the pools {wanted}", 30)

        body = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": BROKEN}}
        (await rest.post(RULES, body)).ok()
        await pools(None)
        change = {"spec": {"deviceSelector": {"pool": "n0"}}}
        (await rest.patch(f"{RULES}/r", change)).ok()
        await pools("n0")
        (await rest.delete(f"{RULES}/r")).ok()
        await pools()
        task.cancel()


async def _compare(
    rest: Rest,
    extender: Extender,
    seen: Decisions,
    namespace: str,
    case: tuple[list[Json], Json, set[str]],
) -> tuple[set[str], set[str]]:
    """Return the nodes that Muster and kube-scheduler find."""
    rules, wanted, _ = case
    devices = [{"name": "a"}, {"name": "b"}]
    slices = [node_slice(f"slice-{node}", node, devices=devices) for node in ("n0", "n1")]
    request = {"name": "req", "exactly": {"deviceClassName": GPU, **wanted}}
    made = scenario(namespace, slices, {"requests": [request]})
    await answers.create(rest, made)
    for number, spec in enumerate(rules):
        body: dict[str, Any] = {"metadata": {"name": f"rule-{number}"}, "spec": spec}
        (await rest.post(RULES, body)).ok()
    ours = Ours(rest, namespace)
    await ours.read()
    await ours.read_rules()
    (pod,) = made.candidates
    here = await ours.answer(pod)
    there = await _theirs(rest, extender, seen, pod, here)
    (await rest.delete(RULES)).ok()
    await answers.clear(rest, made)
    return set(here.nodes), set(there.nodes)


async def _theirs(
    rest: Rest, extender: Extender, seen: Decisions, pod: Json, here: Answer
) -> Answer:
    """Return kube-scheduler's result, after retries because its caches may lag."""
    for _ in range(10):
        there = await answers.theirs(rest, extender, seen, pod)
        if there.nodes == here.nodes:
            break
        await asyncio.sleep(0.2)
    return there
