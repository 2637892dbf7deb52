"""An answer of `fit` as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.fit.messages import FitAnswer, FitResult, FitRoot
from api.wording import count

_WORDS = {
    "now": "fits now",
    "afterEviction": "fits after evictions",
    "afterTermination": "fits when terminating pods are deleted",
    "no": "does not fit",
    "unknown": "is not known to fit",
}


def lines_of(answer: FitAnswer) -> Iterator[str]:
    """Yield the lines, with a number for each workload if there are several."""
    for number, result in enumerate(answer.workloads, 1):
        if len(answer.workloads) > 1:
            yield f"workload {number}: {result.fits}"
        yield from result_lines(result)


def result_lines(result: FitResult) -> Iterator[str]:
    """Yield the lines of one workload."""
    for root in result.roots:
        yield from _root_lines(root)
    if not result.roots:
        yield "nothing to schedule"
    yield from result.notes


def _root_lines(root: FitRoot) -> Iterator[str]:
    namespace, kind, name = root.id.split("/", 2)
    yield f"{kind} {namespace}/{name}: {_WORDS[root.fits]}"
    if root.sentence:
        yield f"  {root.sentence}"
    for domain in root.domains or ():
        yield f"  {domain.key}={domain.value}: {count(domain.pods, 'pod')}"
    if root.nodes:
        yield f"  nodes: {', '.join(f'{node.name} x{node.pods}' for node in root.nodes)}"
    if root.evicted_pods:
        yield f"  would evict {count(root.evicted_pods, 'pod')} of lower priority:"
    for victim in root.evicts:
        pods, units = count(victim.pods, "pod"), count(victim.units, "unit")
        yield f"    {victim.id}: {pods} in {units}, priority {victim.priority}"
    if root.hidden_workloads:
        pods = count(root.hidden_pods, "pod")
        others = count(root.hidden_workloads, "workload")
        yield f"    {pods} of {others} in namespaces that you cannot see"
    if root.known_from is not None:
        yield f"  fits from {root.known_from}, if nothing else changes"
    elif root.fits in ("no", "unknown") and root.sentence:
        yield "  from when it fits is not known"
