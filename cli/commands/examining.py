"""Options of `muster doctor` and `muster support-bundle`, and the connection of commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from kube.base.errors import KubeError
from kube.client.client import Client
from kube.credentials.loading import ClientConfig

SystemNamespace = Annotated[str, typer.Option("--system-namespace", help="namespace of Muster")]
TrialNamespace = Annotated[
    str,
    typer.Option(
        "--trial-namespace",
        "--namespace",
        "-n",
        help="namespace in which groups are created with dryRun",
    ),
]
Health = Annotated[
    list[str] | None,
    typer.Option("--health", help="URL of a process outside of the cluster (its --health address)"),
]

T = TypeVar("T")


def on_cluster(
    access: ClientConfig,
    work: Callable[[Client], Coroutine[Any, Any, T]],
    user_agent: str = "muster-doctor",
) -> T:
    """Run `work` with a client; end with exit code 2 if the cluster cannot be reached."""

    async def connected() -> T:
        async with await Client.connect(access, user_agent=user_agent) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except KubeError as problem:
        typer.echo(f"muster: {problem}", err=True)
        raise typer.Exit(2) from problem
