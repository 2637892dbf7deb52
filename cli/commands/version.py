"""`muster version`."""

import typer

from kube.base.build import read_build


def version() -> None:
    """Print the version and the commit of this command."""
    typer.echo(read_build())
