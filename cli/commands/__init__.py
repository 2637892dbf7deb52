"""The commands for users, in a table of import paths. Only the command that runs is imported."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import typer

from cli.config.lean_imports import COLOURS, uncollected, without
from cli.config.process_names import PROCESSES


class Command(NamedTuple):
    """A command's function as MODULE:FUNCTION in this package, and the first line of its help."""

    path: str
    summary: str

    def load(self) -> Callable[..., Any] | typer.Typer:
        """Return the command's function, or a typer application with subcommands.

        typer is loaded before and has already detected rich; structlog does not need it.
        """
        name, _, function = self.path.partition(":")
        with uncollected(), without(*COLOURS):
            module = importlib.import_module(f"{__name__}.{name}")
        if (structlog := sys.modules.get("structlog")) is not None:
            # Standard output is for what the command prints; programs read it. Users want to know
            # what goes wrong, and not how the process is doing.
            structlog.configure(
                wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
                logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
            )
        found: Callable[..., Any] | typer.Typer = getattr(module, function)
        return found


COMMANDS: Final[Mapping[str, Command]] = {
    "demo": Command(
        "local:demo",
        "Start an embedded cluster with Muster, schedule the examples and check the result.",
    ),
    "tree": Command(
        "tree:tree",
        "Print the trees of groups, with the nodes of their pods or the reason why they wait.",
    ),
    "explain": Command(
        "explain:explain",
        "Show why a pod, a group or its owner waits, or where it would be scheduled now.",
    ),
    "console": Command(
        "console:console",
        "Show what runs where, and why something waits, on a page. It changes nothing.",
    ),
    "simulate": Command(
        "simulate:simulate_",
        "Show whether manifests would fit, where, and if not why; exit code 1 if one does not.",
    ),
    "fit": Command("fit:fit", "Show whether workloads would fit now; exit code 1 if one does not."),
    "defrag": Command(
        "defrag:defrag",
        "Show which gangs would have to move so that a pending group fits; --apply asks for it.",
    ),
    "snapshot": Command(
        "snapshots:snapshot_",
        "Write the complete input of the scheduler to a file, for explain, tree and replay.",
    ),
    "replay": Command(
        "snapshots:replay",
        "Repeat the decisions of a snapshot; exit code 1 if one differs from the recorded one.",
    ),
    "lab": Command(
        "lab:lab", "Run a trace of jobs on a simulated cluster, in virtual time; compare variants."
    ),
    "doctor": Command(
        "doctor:doctor",
        "Check an installation, and print what is wrong and what to do. It changes nothing.",
    ),
    "support-bundle": Command(
        "support_bundle:support_bundle",
        "Write findings, logs, metrics, a snapshot, Muster's objects and events to a file.",
    ),
    "manifests": Command(
        "manifests:manifests",
        "Print the webhook registration for the schedulerNames of a configuration file, as YAML.",
    ),
    "gc": Command(
        "gc:gc",
        "List groups and Workloads that should be deleted, and finalizers that nothing needs.",
    ),
    "label-nodes": Command(
        "label_nodes:label_nodes",
        "Print, or write, labels of nodes for the tiers of Volcano's HyperNodes.",
    ),
    "uninstall": Command(
        "uninstall:uninstall",
        "Delete Muster with all its objects; exit code 1 if gangs use it or an object remains.",
    ),
    "version": Command("version:version", "Print the version and the commit of this command."),
    "localcluster": Command("local:localcluster", "Run the embedded cluster until Ctrl-C."),
}


def application(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line. Only the command that `arguments` name is loaded."""
    app = typer.Typer(
        name="muster",
        no_args_is_help=True,
        add_completion=False,
        help="Gangs and trees of gangs for Jobs and JobSets on Kubernetes.",
        epilog="Server processes: " + ", ".join(PROCESSES) + " (muster COMMAND --help).",
    )
    # `muster` itself has no option with a value, so the first word is the command.
    named = next((each for each in arguments if not each.startswith("-")), None)
    for name, command in COMMANDS.items():
        if name != named:
            app.command(name, help=command.summary)(_only_listed)
        elif isinstance(found := command.load(), typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _only_listed() -> None:
    """Represent an unloaded command in the list of commands."""
    raise AssertionError("only the chosen command is loaded")


def main(arguments: Sequence[str], program: str = "muster") -> int:
    """Run one command of this program; return its exit code."""
    # typer ends by SystemExit even where it handles the error itself.
    try:
        application(arguments)(list(arguments), prog_name=program, standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0
