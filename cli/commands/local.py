"""`muster demo` and `muster localcluster`: the embedded cluster."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.demo import demo as demo_cluster


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="keep the cluster running until Ctrl-C")
    ] = False,
) -> None:
    """Start an embedded cluster with Muster, schedule the examples and check the result."""
    _need_localcluster()
    raise typer.Exit(demo_cluster.main(keep=keep))


def localcluster(
    kubeconfig: Annotated[Path, typer.Option(help="file for the kubeconfig")],
    port: Annotated[int, typer.Option(help="port of the API server; 0 selects a free port")] = 0,
) -> None:
    """Run the embedded cluster until Ctrl-C."""
    _need_localcluster()
    sys.argv = ["localcluster", "--kubeconfig", str(kubeconfig), "--port", str(port)]
    runpy.run_module("localcluster", run_name="__main__")


def _need_localcluster() -> None:
    """End with exit code 2 if the embedded cluster is not installed."""
    if importlib.util.find_spec("localcluster") is None:
        typer.echo(
            "muster: the embedded cluster is not installed: use `pip install muster[demo]`, or"
            " `make .venv` in a checkout.",
            err=True,
        )
        raise typer.Exit(2)
