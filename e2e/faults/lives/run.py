"""Concurrent lives on one cluster."""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from e2e.faults.lives.player import LifeError, Player, Shared
from e2e.faults.lives.script import Life
from e2e.faults.lives.watched import Watched
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import Muster
from kube.client.client import Client

AT_ONCE = 16


@dataclass(slots=True)
class Result:
    played: int = 0
    faults: dict[int, str] = field(default_factory=dict)
    """The failures, by the number of the life."""


async def play(
    lives: Iterable[Life],
    cluster: Cluster,
    muster: Muster,
    say: Callable[[str], None] = print,
    *,
    at_once: int = AT_ONCE,
) -> Result:
    """Play all lives, `at_once` at a time, each in a namespace with its own nodes."""
    result = Result()
    waiting = iter(lives)
    shared = Shared(muster)
    async with (
        await Client.connect(cluster.kubeconfig, user_agent="muster-lives") as client,
        Watched().followed(client) as watched,
    ):

        async def one(life: Life) -> None:
            namespace = f"life-{life.seed}-{secrets.token_hex(2)}"
            player = Player(life, namespace, cluster, client, watched, shared)
            try:
                await player.play()
            except LifeError as fault:
                result.faults[life.seed] = str(fault)
                say(f"FAILED {fault}")
            result.played += 1
            if result.played % 50 == 0:
                say(f"{result.played} lives played, {len(result.faults)} failed")

        async def lane() -> None:
            for life in waiting:
                await one(life)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(at_once):
                lanes.create_task(lane())
    return result
