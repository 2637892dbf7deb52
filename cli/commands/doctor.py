"""`muster doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import (
    Health,
    Kubeconfig,
    SystemNamespace,
    TrialNamespace,
    on_cluster,
    user_errors,
)
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import EXIT_CODES, highest, json_report, text_lines
from kube.base.build import read_build


def doctor(
    kubeconfig: Kubeconfig = None,
    system_namespace: SystemNamespace = "muster-system",
    trial_namespace: TrialNamespace = "default",
    health: Health = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="print only errors and warnings")
    ] = False,
) -> None:
    """Check an installation, and print what is wrong and what to do. It changes nothing.

    Exit code: 0 no problem, 1 warnings, 3 errors, 2 the cluster could not be reached.
    """
    options = Options(system_namespace, trial_namespace, tuple(health or ()))
    with user_errors():
        found = on_cluster(kubeconfig, lambda it: Examination(it, options).run(), "doctor")
    if json:
        typer.echo(json_report(found, read_build().version).decode())
    else:
        typer.echo("\n".join(text_lines(found, all_of_them=not quiet)))
    raise typer.Exit(EXIT_CODES[highest(found)])
