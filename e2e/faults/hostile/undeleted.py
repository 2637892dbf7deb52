"""The objects that remain after the deletion, and the controllers' knowledge of them.

That distinguishes a lagging collector from an object that it forgot, or that Muster protects.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

import aiohttp

from api.constants import ANNOTATION_MADE_FOR
from cli.cleanup.gc import check
from e2e.faults.hostile import inventory
from e2e.faults.hostile.inventory import KINDS, Inventory
from e2e.faults.hostile.site import Site
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.objects import Json
from kube.base.errors import KubeError
from kube.client.client import Client

_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
_GRAPH = "/debug/controllers/garbage-collector-controller/graph"
_VERTEX = re.compile(r'^  "[^"]*" \[\n(.*?)^  \];$', re.MULTILINE | re.DOTALL)
_ATTRIBUTE = re.compile(r'^    (\w+)="(.*)"$', re.MULTILINE)
_QUEUES = {
    "kube-controller-manager": ("workqueue_depth{", "garbage_collector"),
    "muster": ("muster_workqueue_depth{", ""),
}


def remaining(seen: Inventory) -> list[Json]:
    """Return all objects except nodes."""
    return [each for plural in KINDS if plural != "nodes" for each in seen.of(plural)]


def described(seen: Inventory, now: datetime) -> list[str]:
    """Return a line for each object: its age and state, its owners, and the owner of its group."""
    living = {each["metadata"]["uid"] for plural in KINDS for each in seen.of(plural)}
    return [", ".join(_facts(each, living, now)) for each in remaining(seen)]


def collectors_view(left: Iterable[Json], graph: str) -> Iterator[str]:
    """Yield the entry in the garbage collector's graph (DOT) for each object and its owners."""
    known = {it["uid"]: it for it in map(_vertex, _VERTEX.findall(graph)) if "uid" in it}
    for each in left:
        meta = each["metadata"]
        owners = [it["uid"] for it in meta.get("ownerReferences") or ()]
        said = [f"{each['kind']} {_name(each)} is {_state(known.get(meta['uid']))}"]
        said += [f"its owner {uid} is {_state(known.get(uid))}" for uid in owners]
        yield "; ".join(said)


def busy_queues(metrics: str, of: str) -> list[str]:
    """Return the queues that are not empty, from a page of metrics."""
    start, part = _QUEUES[of]
    lines = [it for it in metrics.splitlines() if it.startswith(start) and part in it]
    return [it for it in lines if float(it.rpartition(" ")[2])]


async def report(site: Site, seen: Inventory) -> list[str]:
    """Return the complete report, line by line."""
    lines = described(seen, datetime.now(UTC))
    for title, part in (
        ("the garbage collector:", _of_the_collector(site, remaining(seen))),
        ("muster gc --check:", _of_gc(site)),
        ("the controllers of Muster:", _of_the_controllers(site)),
    ):
        try:
            found = await part
        except (*_UNREACHABLE, KubeError) as error:
            found = [f"does not answer: {error!r}"]
        lines += [title, *(f"  {line}" for line in found or ["nothing"])]
    return lines


async def _of_the_collector(site: Site, left: Sequence[Json]) -> list[str]:
    if not isinstance(site.cluster, ControlPlane):
        return ["the embedded cluster's does not say"]
    uids = {each["metadata"]["uid"] for each in left}
    uids |= {it["uid"] for each in left for it in each["metadata"].get("ownerReferences") or ()}
    query = urlencode([("uid", uid) for uid in sorted(uids)])
    page = site.cluster.controller_manager_page
    graph, metrics = await asyncio.gather(_text(page(f"{_GRAPH}?{query}")), _text(page("/metrics")))
    return [*collectors_view(left, graph), *busy_queues(metrics, "kube-controller-manager")]


async def _of_gc(site: Site) -> list[str]:
    async with await Client.connect(site.cluster.kubeconfig) as client:
        return [str(finding) for finding in await check(client)]


async def _of_the_controllers(site: Site) -> list[str]:
    lines = []
    for name in site.controllers:
        for path in ("/readyz", "/metrics"):
            text = await _text(site.muster.page(name, path))
            found = busy_queues(text, "muster") if path == "/metrics" else text.splitlines()
            lines += [f"{name} {path}: {line}" for line in found]
    return lines


async def _text(url: str) -> str:
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
        session.get(url, ssl=False) as answer,
    ):
        text = await answer.text()
        return text if answer.status in (200, 500, 503) else f"answers {answer.status}: {text}"


def _facts(obj: Json, living: set[str], now: datetime) -> Iterator[str]:
    meta = obj["metadata"]
    yield f"{obj['kind']} {_name(obj)}, uid {meta.get('uid')}"
    yield f"created {_since(meta.get('creationTimestamp'), now)}"
    if "deletionTimestamp" in meta:
        yield f"being deleted since {_since(meta['deletionTimestamp'], now)}"
    yield f"finalizers {meta.get('finalizers') or []}"
    owners = [
        f"{it['kind']}/{it['name']} {it['uid']} ({_living(it['uid'], living)})"
        for it in meta.get("ownerReferences") or ()
    ]
    yield f"owners {owners}"
    if made_for := (meta.get("annotations") or {}).get(ANNOTATION_MADE_FOR):
        yield f"made for {made_for} ({_living(made_for.rpartition('/')[2], living)})"
    if obj["kind"] == "Pod":
        yield f"{inventory.phase(obj)} on {inventory.node_of(obj)} in {inventory.group_of(obj)}"


def _name(obj: Json) -> str:
    return "/".join(filter(None, inventory.key_of(obj)))


def _living(uid: str, living: set[str]) -> str:
    return "there" if uid in living else "gone"


def _since(moment: str | None, now: datetime) -> str:
    if not moment:
        return "at no time"
    return f"{(now - datetime.fromisoformat(moment)).total_seconds():.0f} s ago"


def _vertex(text: str) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(text))


def _state(vertex: Mapping[str, str] | None) -> str:
    """Return the collector's state; it keeps no object without owners and dependents."""
    if vertex is None:
        return "not in its graph"
    words = ("missing", "virtual", "beingDeleted", "deletingDependents")
    said = [word for word in words if vertex.get(word) == "true"]
    return f"in its graph ({', '.join(said) or 'alive'})"
