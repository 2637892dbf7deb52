"""The trees as lines of text, for a terminal, a log and the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from api.reading import dig
from api.wording import count
from cli.trees.tree import Branch, Object

TEE, LAST, PIPE, GAP = "├─ ", "└─ ", "│  ", "   "


def tree_lines(branches: Iterable[Branch]) -> list[str]:
    """Return one line for each branch, and one for the reason why it waits.

    A group that waits for another one of its tree names that, and does not repeat its reason.
    """
    return [line for branch in branches for line in _lines(branch, _reasons(branch))]


def _reasons(branch: Branch) -> frozenset[str]:
    return frozenset((branch.reason,)).union(*map(_reasons, branch.children))


def _lines(
    branch: Branch, reasons: frozenset[str], first: str = "", rest: str = ""
) -> Iterator[str]:
    yield f"{first}{headline(branch)}"
    below = PIPE if branch.children else GAP
    if branch.reason:
        waits_for, _, why = branch.reason.partition(": ")
        yield f"{rest}{below}{f'{waits_for}.' if why and why in reasons else branch.reason}"
    for number, child in enumerate(branch.children, start=1):
        last = number == len(branch.children)
        yield from _lines(
            child, reasons, rest + (LAST if last else TEE), rest + (GAP if last else PIPE)
        )


def headline(branch: Branch) -> str:
    """Return `PodGroup pg-a: Scheduled, 4 of 4 pods scheduled (minCount 4) on n1 x2, n2 x2`.

    `, 3 held places` follows the pods if the group has held places for pods that do not exist yet.
    """
    minimum = ""
    if branch.minimum is not None:
        field = "minCount" if branch.kind.startswith("PodGroup") else "minGroupCount"
        minimum = f" ({field} {branch.minimum})"
    where = ", ".join(f"{node} x{number}" for node, number in branch.nodes.items())
    if branch.children or not where:
        where = ""
    placed = f"{branch.placed} of {branch.members} pods scheduled"
    on = f" on {where}" if where else ""
    if branch.held:
        placed += f", {count(branch.held, 'held place')}"
    return f"{branch.kind} {branch.name}: {branch.state}, {placed}{minimum}{on}"


def node_lines(nodes: Sequence[Object], pods: Sequence[Object], label: str) -> list[str]:
    """Return one line for each node: its value of `label`, and a block for each of its pods."""
    used = pods_per_node(pods)
    width = max((len(node["metadata"]["name"]) for node in nodes), default=0)
    lines = []
    for node in sorted(
        nodes, key=lambda n: (n["metadata"].get("labels", {}).get(label, ""), _name(n))
    ):
        name = _name(node)
        domain = node["metadata"].get("labels", {}).get(label, "-")
        number = used.get(name, 0)
        lines.append(f"{domain:>8}  {name:<{width}}  {'■' * number} {count(number, 'pod')}")
    return lines


def pods_per_node(pods: Iterable[Object]) -> Mapping[str, int]:
    """Return the number of pods on each node that have not ended."""
    running = (it for it in pods if dig(it, "status", "phase") not in {"Succeeded", "Failed"})
    return Counter(it["spec"]["nodeName"] for it in running if it["spec"].get("nodeName"))


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])
