"""Gangs that require one domain of an attribute of their devices."""

import pytest

from api.constants import ANNOTATION_TOPOLOGY
from e2e.flows.devices.test_devices import job_with_claims
from e2e.harness.devices import CLAIM_TEMPLATES, SINCE, claim_template, devices_in, request
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from kube.client.resources import JOBS

pytestmark = pytest.mark.since(*SINCE)


async def test_gangs_stay_in_one_clique_and_a_slice_with_another_value_lets_the_next_start(
    env: Environment,
) -> None:
    async with devices_in(env.client, env.name) as devices:
        key = f"{devices.driver}/clique"
        own = await devices.add_class()
        await env.create(CLAIM_TEMPLATES, claim_template("one-gpu", request(own)))
        cliques: dict[str, list[str]] = {"a": [], "b": [], "c": []}
        for value in "aaaabbbc":
            node = await env.add_node(cpu=1)
            await devices.publish(node, of_clique(value))
            cliques[value].append(node)

        await env.create(JOBS, in_one(key, job_with_claims("first", env.name, 4)))
        await env.runs(of_job("first"), 4)
        assert await nodes(env, "first") == sorted(cliques["a"])
        await env.create(JOBS, in_one(key, job("second", env.name, pods=4)))
        waiting = await env.waits("pg-job-second", needed=4, free=3)
        assert waiting["bestDomain"] == {"key": key, "value": "b", "missing": 1}

        await devices.publish(cliques["c"][0], of_clique("b"), generation=2)

        await env.runs(of_job("second"), 4)
        assert await nodes(env, "second") == sorted(cliques["b"] + cliques["c"])
        for name in ("first", "second"):
            await env.delete(JOBS, name)
        await env.empty()
        await devices.nothing_left_allocated()


def of_clique(value: str) -> list[Json]:
    """Return one device with that clique."""
    return [{"name": "gpu", "attributes": {"clique": {"string": value}}}]


def in_one(key: str, made: Json) -> Json:
    """Return the Job with a required topology."""
    made["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = key
    return made


async def nodes(env: Environment, name: str) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in await env.pods(of_job(name)))
