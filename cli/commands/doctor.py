"""`muster doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import output
from cli.commands.options import (
    Context,
    Health,
    Kubeconfig,
    SystemNamespace,
    TrialNamespace,
    on_cluster,
    user_errors,
)
from cli.commands.output import Output, OutputOption
from cli.doctor import findings
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import EXIT_CODES, Severity
from kube.base.build import read_build
from kube.credentials.loading import ClientConfig


def doctor(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    system_namespace: SystemNamespace = "muster-system",
    trial_namespace: TrialNamespace = "default",
    health: Health = None,
    format_: OutputOption = None,
    json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    admission_only: Annotated[
        bool,
        typer.Option(
            "--admission-only", help="only create groups with dryRun; this needs no other right"
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="print only errors and warnings")
    ] = False,
) -> None:
    """Check an installation, and print what is wrong and what to do. It changes nothing.

    Exit code: 0 no problem, 1 warnings, 3 errors, 2 the cluster could not be reached.
    """
    options = Options(
        system_namespace, trial_namespace, tuple(health or ()), admission_only=admission_only
    )
    access = ClientConfig(kubeconfig, context)
    with user_errors():
        found = on_cluster(access, lambda it: Examination(it, options).run(), "doctor")
    names = (output.full_name(one.about.kind, one.about.name) for one in found)
    report = findings.report(found, read_build().version)
    if not output.print_structured(Output.JSON if json else format_, report, names):
        wide = format_ is Output.WIDE
        if wide or output.is_plugin(ctx):
            shown = [one for one in found if not quiet or one.severity > Severity.INFO]
            output.print_table([*findings.rows(shown, wide=wide)], "no problems")
        else:
            typer.echo("\n".join(findings.text_lines(found, all_of_them=not quiet)))
    raise typer.Exit(EXIT_CODES[findings.highest(found)])
