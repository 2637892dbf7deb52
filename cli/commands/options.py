"""Options that several commands have, and the display of errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.completion import contexts, namespaces
from kube.base.errors import KubeError

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


@contextmanager
def user_errors() -> Iterator[None]:
    """Print errors that a user can act on without a traceback; exit code 2."""
    try:
        yield
    except (KubeError, OSError) as error:
        sys.stderr.write(f"muster: {error}\n")
        raise typer.Exit(2) from error
