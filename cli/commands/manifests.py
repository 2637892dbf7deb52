"""`muster manifests`."""

from __future__ import annotations

import typer
import yaml

from cli.commands.options import ConfigFile, user_errors
from cli.config import load
from webhooks.registration import load_manifests


def manifests(config: ConfigFile = None) -> None:
    """Print the webhook registration for the schedulerNames of a configuration file, as YAML.

    Apply it after `manifests/base`, or use it there as a patch: the conditions that say who is
    asked about name the usual schedulerName alone.
    """
    with user_errors():
        typer.echo(
            yaml.safe_dump_all(load_manifests(load(config).scheduler_names), sort_keys=False)
        )
