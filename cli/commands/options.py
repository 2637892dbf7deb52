"""Options that several commands have, the connection to a cluster, and the display of errors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cli.commands.completion import contexts, namespaces
from kube.base.errors import KubeError

if TYPE_CHECKING:
    from kube.client.client import Client
    from kube.credentials.loading import ClientConfig

Kubeconfig = Annotated[Path | None, typer.Option(help="default: $KUBECONFIG, then ~/.kube/config")]
Context = Annotated[
    str | None,
    typer.Option(
        help="context of the kubeconfig; default: the current one", autocompletion=contexts
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Muster's configuration file, for schedulerNames and feature gates"
    ),
]
SnapshotFile = Annotated[
    Path | None, typer.Option("--snapshot", help="use a snapshot file instead of the live cluster")
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="default: the namespace of the context",
        autocompletion=namespaces,
    ),
]
NamespaceOrAll = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="default: all; for kubectl muster the namespace of the context",
        autocompletion=namespaces,
    ),
]
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


@contextmanager
def user_errors(code: int = 2) -> Iterator[None]:
    """Print errors that a user can act on without a traceback; end with the exit code."""
    try:
        yield
    except (KubeError, OSError) as error:
        sys.stderr.write(f"muster: {error}\n")
        raise typer.Exit(code) from error


def on_cluster(
    access: ClientConfig, work: Callable[[Client], Coroutine[Any, Any, T]], command: str = "cli"
) -> T:
    """Run `work` with a client. Raises kube errors."""
    from kube.client.client import Client  # commands without a cluster do not load it

    async def connected() -> T:
        async with await Client.connect(access, user_agent=f"muster-{command}") as client:
            return await work(client)

    return asyncio.run(connected())
