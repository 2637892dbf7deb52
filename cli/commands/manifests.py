"""`muster manifests`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from api.scheduler_names import USUAL
from cli.commands.options import ConfigFile, user_errors
from cli.config.config import load
from cli.manifests.packaged_manifests import write
from webhooks.server.registration import load_manifests


def manifests(
    config: ConfigFile = None,
    output: Annotated[
        Path | None,
        typer.Option(help="write all manifests to this new folder instead, for kubectl apply -k"),
    ] = None,
) -> None:
    """Print the webhook registration for the schedulerNames of a configuration file, as YAML.

    Apply it after `manifests/base`, or use it there as a patch, because the match conditions there
    have only the default schedulerName. The files of `--output` already have these names.
    """
    with user_errors():
        names = load(config).scheduler_names
        registration = load_manifests(names)
        if output is None:
            typer.echo(yaml.safe_dump_all(registration, sort_keys=False))
        else:
            # With the usual names, the files are written unchanged, comments included.
            write(output, () if names == USUAL else registration)
