"""`muster uninstall`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cli.commands.options import ConfigFile, Context, Kubeconfig, on_cluster, user_errors
from cli.config.config import load
from cli.uninstall.command import HelmRelease
from cli.uninstall.command import uninstall as remove
from cli.uninstall.installation import NAMESPACE as INSTALLED_IN
from kube.credentials.loading import ClientConfig


def uninstall(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="namespace of Muster")
    ] = INSTALLED_IN,
    timeout: Annotated[float, typer.Option(help="maximum seconds of each wait")] = 120.0,
    config: ConfigFile = None,
    release: Annotated[
        bool, typer.Option("--release", help="hand off waiting pods to the default scheduler")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the steps, and change nothing")
    ] = False,
    prepare: Annotated[
        bool,
        typer.Option("--prepare", help="stop Muster, and leave the rest to its installer"),
    ] = False,
    helm_release: Annotated[
        str | None,
        typer.Option(metavar="NAME:REVISION", help="the release whose hook runs this", hidden=True),
    ] = None,
) -> None:
    """Delete Muster with all its objects; exit code 1 if gangs use it or an object remains.

    `--prepare` deletes only what blocks the rest: the webhooks, the processes, their rights and
    finalizers. It keeps the CRDs; `helm uninstall` or `kubectl delete` deletes the rest.
    """
    with user_errors():
        names = load(config).scheduler_names
        helm = HelmRelease.parse(helm_release, namespace) if helm_release else None
        run = partial(
            remove,
            namespace=namespace,
            say=typer.echo,
            release=release,
            dry_run=dry_run,
            timeout=timeout,
            prepare=prepare,
            names=names,
            helm=helm,
        )
        code = on_cluster(ClientConfig(kubeconfig, context), run, "uninstall")
    raise typer.Exit(code)
