"""Output of the demo: trees drawn in place on a terminal, one line per change otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cli.trees.text import headline, node_lines, tree_lines
from cli.trees.tree import SCHEDULED, STARTING, WAITING, Branch, Objects, build


class DemoView:
    """The output of the demo: one line for each change of a PodGroup's state or of its reason."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[str, str]] = {}

    def print_line(self, line: str) -> None:
        """Print one line of text."""
        print(line, flush=True)

    def show(self, objects: Objects) -> None:
        """Print the PodGroups whose state changed, but none that only waits for its pods."""
        for group in _leaves(build(objects)):
            change = (group.state, group.reason)
            if group.state != WAITING and self._shown.get(group.name) != change:
                self._shown[group.name] = change
                self.print_line(f"    {'. '.join(filter(None, (headline(group), group.reason)))}")


def _leaves(branches: Iterable[Branch]) -> Iterator[Branch]:
    for branch in branches:
        if branch.children:
            yield from _leaves(branch.children)
        else:
            yield branch


@contextmanager
def open_view(label: str) -> Iterator[DemoView]:
    """Open the view for a terminal or for plain output; `label` is the node label of the rack."""
    if not sys.stdout.isatty():
        yield DemoView()
        return
    with _live_view(label) as view:
        yield view


@contextmanager
def _live_view(label: str) -> Iterator[DemoView]:
    from rich.console import Group
    from rich.live import Live
    from rich.panel import Panel
    from rich.text import Text

    class LiveView(DemoView):
        def __init__(self, live: Live) -> None:
            super().__init__()
            self._live = live

        def print_line(self, line: str) -> None:
            self._live.console.print(Text(line, style="bold"))

        def show(self, objects: Objects) -> None:
            trees = Text("\n".join(tree_lines(build(objects))) or "no groups")
            trees.highlight_words([SCHEDULED], "bold green")
            trees.highlight_words(["Unschedulable", "Incomplete", STARTING, WAITING], "bold yellow")
            trees.highlight_words(["Invalid", "SchedulerError"], "bold red")
            nodes = Text("\n".join(node_lines(objects.nodes, objects.pods, label)))
            nodes.highlight_words(["■"], "green")
            self._live.update(Group(Panel(trees, title="trees"), Panel(nodes, title="nodes")))

    with Live(refresh_per_second=8) as live:
        yield LiveView(live)
