"""Clusters and queues as the console's server sends them: small, 5,000 nodes, hostile names."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Json = dict[str, Any]

BLOCK: Final = "topology.example.com/block"
RACK: Final = "topology.kubernetes.io/rack"
KEYS: Final = (BLOCK, RACK)
UNITS: Final = {"cpu": "milli", "memory": "bytes", "nvidia.com/gpu": ""}
CAPACITY: Final = {"cpu": 64_000, "memory": 512 * 2**30, "nvidia.com/gpu": 8}


def ago(seconds: float) -> str:
    """Return a time before now, in the server's format."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@dataclass
class Contents:
    """The contents of the fake server; tests change them and send the change."""

    blocks: Mapping[str, Mapping[str, Sequence[str]]]
    """The racks of each block, and the nodes of each rack."""
    full: dict[str, float] = field(default_factory=dict)
    """The utilization of a node, 0 to 1; other nodes are empty."""
    flags: dict[str, Json] = field(default_factory=dict)
    queue: list[Json] = field(default_factory=list)
    workloads: dict[str, Json] = field(default_factory=dict)
    listed: list[Json] = field(default_factory=list)
    """The rows of the list of workloads, in its order."""
    history: Json = field(default_factory=dict)
    user: str = "admin@example.com"

    def nodes(self) -> list[str]:
        return [name for racks in self.blocks.values() for some in racks.values() for name in some]

    def node(self, name: str, resource: str = "cpu") -> Json:
        capacity = CAPACITY[resource]
        used = round(self.full.get(name, 0.0) * 8) * capacity // 8
        return {
            "name": name,
            "capacity": capacity,
            "used": used,
            "free": capacity - used,
            "pods": round(self.full.get(name, 0.0) * 8),
            "schedulable": True,
            "ready": True,
            **self.flags.get(name, {}),
        }

    def map(self, resource: str = "cpu") -> Json:
        domains = [
            _domain(
                BLOCK,
                block,
                block,
                children=[
                    _domain(
                        RACK, f"{block}/{rack}", rack, nodes=[self.node(n, resource) for n in names]
                    )
                    for rack, names in racks.items()
                ],
            )
            for block, racks in self.blocks.items()
        ]
        return {
            "resource": resource,
            "resources": [{"name": name, "unit": unit} for name, unit in UNITS.items()],
            "keys": list(KEYS),
            "domains": domains,
            "revision": 1,
        }

    def totals(self, names: Iterable[str], resource: str = "cpu") -> list[Json]:
        """Return the updated sums of the domains around these nodes."""
        wanted = set(names)
        changed = []
        for block in self.map(resource)["domains"]:
            racks = [r for r in block["children"] if wanted & {n["name"] for n in r["nodes"]}]
            changed += [block, *racks] if racks else []
        return [{key: one[key] for key in ("id", "used", "free", "held")} for one in changed]

    def largest(self, key: str) -> Json:
        """Return the capacity of each domain of `key` in pods of an eighth of a node."""
        room = []
        for block in self.map()["domains"]:
            for one in [block] if key == BLOCK else block["children"]:
                pods = 8 * one["free"] // CAPACITY["cpu"]
                room.append({"id": one["id"], "value": one["value"], "pods": pods})
        return {"key": key, "domains": room}

    def pods(self, workload: str) -> list[Json]:
        found: dict[str, int] = {}
        for pod in _pods_of(self.workloads.get(workload, {}).get("tree", {})):
            if pod["node"]:
                found[pod["node"]] = found.get(pod["node"], 0) + 1
        return [{"node": node, "pods": count} for node, count in found.items()]


def _domain(
    key: str,
    id_: str,
    value: str,
    *,
    children: Sequence[Json] = (),
    nodes: Sequence[Json] = (),
) -> Json:
    parts = [*children, *nodes]
    return {
        "id": id_,
        "key": key,
        "value": value,
        "capacity": sum(part["capacity"] for part in parts),
        "used": sum(part["used"] for part in parts),
        "held": 0,
        "free": sum(part["free"] for part in parts),
        "largest": None,
        "children": list(children),
        "nodes": list(nodes),
    }


def _pods_of(branch: Json) -> Iterable[Json]:
    yield from branch.get("pods", [])
    for child in branch.get("children", []):
        yield from _pods_of(child)


def blocks(count: int, racks: int, nodes: int) -> dict[str, dict[str, list[str]]]:
    """Return `count` blocks of `racks` racks of `nodes` nodes."""
    return {
        f"block-{b}": {
            f"b{b}-rack-{r}": [f"node-{b}-{r}-{n}" for n in range(1, nodes + 1)]
            for r in range(1, racks + 1)
        }
        for b in range(1, count + 1)
    }


def filled(contents: Contents, seed: int = 7) -> Contents:
    """Fill the nodes as in a busy cluster: entire racks in use, some scattered, some free."""
    draw = random.Random(seed)
    for racks in contents.blocks.values():
        for names in racks.values():
            usual = draw.choice((0.0, 0.3, 0.7, 1.0, 1.0))
            for name in names:
                part = usual + draw.choice((-0.25, 0.0, 0.0, 0.0, 0.25))
                contents.full[name] = min(1.0, max(0.0, part))
    return contents


def listed(id_: str, status: str, state: str, **more: Any) -> Json:
    """Return a row of the list of workloads; a finished one is deleted."""
    namespace, kind, name = id_.split("/")
    gone = status == "finished"
    pods = more.pop("pods", 16)
    return {
        "id": id_,
        "namespace": namespace,
        "kind": kind,
        "name": name,
        "status": status,
        "state": state,
        "priority": 0,
        "pods": pods,
        "bound": 0 if gone or status == "waiting" else pods,
        "running": 0 if gone or status == "waiting" else pods,
        "minimum": None if gone else pods,
        "created": ago(7200),
        "ended": ago(300) if gone else None,
        "deleted": gone,
        **more,
    }


def waiting(number: int, reason: str, sentence: str, waits_for: str = "", **more: Any) -> Json:
    """Return a row of the queue."""
    name = more.pop("name", f"train-{number}")
    namespace = more.pop("namespace", "research" if number % 2 else "vision")
    kind = more.pop("kind", "PodGroup")
    return {
        "id": f"{namespace}/{kind}/{name}",
        "position": number,
        "namespace": namespace,
        "kind": kind,
        "name": name,
        "owner": {"kind": "Job", "name": name},
        "priority": more.pop("priority", 1000 - 100 * number),
        "since": ago(more.pop("age", 97 * number)),
        "pods": more.pop("pods", 8 * number),
        "minimum": more.pop("minimum", 8 * number),
        "reason": reason,
        "sentence": sentence,
        "nearest": more.pop("nearest", None),
        "waitsFor": waits_for,
    }
