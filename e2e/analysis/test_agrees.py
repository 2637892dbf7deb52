"""The simulator agrees with a real cluster: the order of starts, the nodes and the victims."""

import pytest

from e2e.analysis.player import Player
from e2e.analysis.spaced import CORES, NODES, RACK, RACK_OF, expected, spaced_trace
from e2e.harness.environment import Environment
from e2e.harness.muster import NAMESPACE, SCHEDULER, STATUS, Muster
from kube.client.resources import LEASES

LONG_LEASE = {"leaseSeconds": 60, "renewSeconds": 50, "retrySeconds": 0.5}
"""The player stops the scheduler, for seconds on a busy machine; it leads on afterwards."""


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_the_same_jobs_start_in_the_same_order_on_the_same_nodes(
    env: Environment, muster: Muster, important: str, *, long: bool
) -> None:
    jobs = spaced_trace(40 if long else 12, seed=3)
    events = expected(jobs)
    # The comparison is only meaningful if the trace has all of these.
    assert any(event.victims for event in events)
    assert any(event.starts for event in events if not event.comes)
    assert any(job.replicas > 1 for job in jobs)
    assert any(job.key for job in jobs)
    nodes = [
        await env.add_node(cpu=CORES, labels={RACK: f"rack-{index // RACK_OF}"})
        for index in range(NODES)
    ]
    # Of equal nodes the scheduler takes the first that it has read; now that is the order of their
    # names. Like the lab's, its decisions end by their steps, and not by the time of a busy
    # machine.
    patient = {"status": STATUS, "search": {"milliseconds": 60_000}}
    muster.configure(scheduler=patient, leaderElection=LONG_LEASE)
    try:
        await muster.restart(SCHEDULER)
        async with env.followed() as pods:
            await Player(env, jobs, nodes, important).play(pods, events)
    finally:
        muster.configure()
        muster.kill(SCHEDULER)
        await env.client.delete(LEASES, "muster-scheduler", NAMESPACE)
        await muster.start(SCHEDULER)
