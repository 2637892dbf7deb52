"""Completion of `kubectl muster` in shells.

kubectl runs `kubectl_complete-muster` with the words after `kubectl muster`. The last one is
incomplete. The output is one suggestion a line, with a tab and its help, and then a directive.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Final

import typer

from api.constants import COMPOSITE_POD_GROUP, JOB, JOBSET, POD_GROUP

_FILES, _NO_FILES = ":0", ":4"
"""The directives: complete names of files if there is no suggestion, and do not."""

_SECONDS: Final = 3
"""Seconds that the API server may take to list what is suggested."""

_KINDS: Final = (JOB, JOBSET, POD_GROUP, COMPOSITE_POD_GROUP)


def suggestions(words: Sequence[str]) -> Iterator[str]:
    """Yield the lines for kubectl."""
    from typer._completion_classes import completion_init

    from cli.commands import main

    completion_init()
    *complete, incomplete = words or [""]
    text = " ".join(["muster", *map(shlex.quote, complete), incomplete and shlex.quote(incomplete)])
    # typer's protocol for the shell fish, whose lines are those of kubectl.
    os.environ["_MUSTER_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = text
    with redirect_stdout(io.StringIO()) as said:
        main(complete)
    found = [line for line in said.getvalue().splitlines() if line]
    # An option that takes a file suggests the incomplete name itself.
    if not found or found == [incomplete]:
        yield _FILES
        return
    yield from found
    yield _NO_FILES


def namespaces(ctx: typer.Context) -> list[str]:
    """Return the namespaces of the cluster."""
    return [name.partition("/")[2] for name in _names(ctx, "namespaces")]


def contexts(ctx: typer.Context) -> list[str]:
    """Return the contexts of the kubeconfig."""
    return _kubectl(ctx, "config", "get-contexts", "--output=name")


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what `muster explain` may explain: kinds first, then names of the kind."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return [f"{it.plural[:-1]}/" for it in _KINDS] + ["pod/"]
    ours = {it.plural[:-1]: f"{it.plural}.{it.group}" for it in _KINDS}
    return [f"{kind}/{name.partition('/')[2]}" for name in _names(ctx, ours.get(kind, kind))]


def _names(ctx: typer.Context, resource: str) -> list[str]:
    return _kubectl(ctx, "get", resource, "--output=name", f"--request-timeout={_SECONDS}s")


def _kubectl(ctx: typer.Context, *arguments: str) -> list[str]:
    """Return the lines that kubectl prints with the same kubeconfig; none if it fails."""
    options = [
        f"--{name}={ctx.params[name]}"
        for name in ("kubeconfig", "context", "namespace")
        if ctx.params.get(name) is not None
    ]
    command = ["kubectl", *arguments, *options]
    try:
        done = subprocess.run(  # noqa: S603 - kubectl, which runs this program
            command, capture_output=True, text=True, check=False, timeout=2 * _SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split()
