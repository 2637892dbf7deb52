"""Objects that exist before the pods of a stage, and the changes that these wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.bench.end_to_end import workload_objects
from tools.bench.end_to_end.cases import Case
from tools.bench.end_to_end.objects import NAMESPACE, PODS, Json
from tools.bench.end_to_end.raw import Change
from tools.bench.end_to_end.workloads import Coming, Content, Stage

_NODES = "/api/v1/nodes"
GIVEN = "v-given"
"""Prefix of the names of running pods."""


def nodes(case: Case, number: int, stage: Stage, kind: Coming) -> list[Json]:
    """Return the nodes of a stage."""
    count = 1 if stage.one else case.nodes
    return [workload_objects.coming(f"s{number}-{at}", kind) for at in range(count)]


def given(case: Case, number: int, stage: Stage) -> list[Json]:
    """Return the pods that run before: one on each node, or one on each node of the first zone."""
    if stage.given is None:
        return []
    places = range(0, case.nodes, 2 if stage.given == "ahead" else 1)
    return [_running(stage.given, f"{GIVEN}-{number}-{at}", at) for at in places]


def _running(kind: Content, name: str, node: int) -> Json:
    made = workload_objects.pod(kind, name, NAMESPACE)
    made["spec"]["nodeName"] = f"n{node}"
    return made


def needed(case: Case, number: int, stage: Stage, names: Sequence[str]) -> list[Change]:
    """Return the changes that these pods wait for; their own changes are one each, in order."""
    if stage.deletes:
        there = workload_objects.blockers(case.nodes, NAMESPACE)
        return [Change("DELETE", f"{PODS}/{each['metadata']['name']}") for each in there]
    if stage.adds:
        return [Change("POST", PODS, pod) for pod in _added(case, number, stage.adds, len(names))]
    if stage.own:
        return [_own(stage, name) for name in names]
    if stage.node is None:
        pods = (pod["metadata"]["name"] for pod in given(case, number, stage))
        return [_of_running(stage, name) for name in pods]
    made = nodes(case, number, stage, stage.node)
    if not stage.before:
        return [Change("POST", _NODES, node) for node in made]
    return [change for node in made for change in _updates(node)]


def _added(case: Case, number: int, kind: Content, waiting: int) -> Iterator[Json]:
    """Yield one pod on each node; or as many in the second zone as the first one then has."""
    places = list(range(case.nodes))
    if kind == "ahead":
        others = range(1, case.nodes, 2)
        places = [others[at % len(others)] for at in range(waiting + (case.nodes + 1) // 2)]
    for at, node in enumerate(places):
        yield _running(kind, f"{GIVEN}-{number}-more-{at}", node)


def _own(stage: Stage, name: str) -> Change:
    if stage.update == "tolerations":
        more = {"key": "toleration", "operator": "Exists", "effect": "NoSchedule"}
        added = [{"op": "add", "path": "/spec/tolerations/-", "value": more}]
        return Change("PATCH", f"{PODS}/{name}", added)
    return Change("PATCH", f"{PODS}/{name}", {"spec": {"schedulingGates": []}})


def _of_running(stage: Stage, name: str) -> Change:
    if stage.update == "resize":
        path = "/spec/containers/0/resources/requests/cpu"
        less = [{"op": "replace", "path": path, "value": "1m"}]
        return Change("PATCH", f"{PODS}/{name}/resize", less)
    labels = workload_objects.pod("added", name, NAMESPACE)["metadata"]["labels"]
    return Change("PATCH", f"{PODS}/{name}", {"metadata": {"labels": labels}})


def _updates(node: Json) -> Iterator[Change]:
    """Yield the changes that turn the node of this name into this one."""
    path = f"{_NODES}/{node['metadata']['name']}"
    whole, status = workload_objects.changed(node)
    yield Change("PATCH", f"{path}/status", status)
    yield Change("PATCH", path, whole)


def written(change: Change) -> str:
    """Return the resource that it writes, as the API server counts it."""
    path = change.path.removeprefix("/api/v1/").removeprefix(f"namespaces/{NAMESPACE}/")
    plural, _, sub = [*path.split("/"), "", ""][:3]
    return "/".join(filter(None, (plural, sub, "delete" if change.method == "DELETE" else "")))
