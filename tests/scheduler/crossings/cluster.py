"""Running pods and reservations as plain values, by which a decision is checked."""

import copy
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Entry = dict[str, Any]
Stage = tuple[str, int, bool]
"""The tree, the number of the stage, and True if the pod exists. Existing ones run at once."""

NETWORK: Final = "net"
ENDED: Final = ("Succeeded", "Failed")


def load(items: Iterable[tuple[int, Stage | None]]) -> int:
    """Return the maximum concurrent use: in each tree, one stage's pods or all existing ones."""
    total, trees = 0, defaultdict[str, dict[int, list[int]]](dict)
    for amount, stage in items:
        if stage is None:
            total += amount
        else:
            tree, number, exists = stage
            trees[tree].setdefault(number, [0, 0])[exists] += amount
    for stages in trees.values():
        now = sum(exist for _, exist in stages.values())
        total += max(now, *(sum(each) for each in stages.values()))
    return total


def space(entry: Entry) -> str:
    """Return the namespace of a pod: the part after @ in its name or its group's."""
    return str(entry["name"]).split("/")[0].partition("@")[2]


def keeps_out(node: Entry, pod: Entry) -> bool:
    """Return True if the taint of the node excludes the pod."""
    tolerated = pod.get("tolerates") in (True, node.get("taint"))
    return node.get("taint") in ("NoSchedule", "NoExecute") and not tolerated


@dataclass
class Cluster:
    """Pods by name, with the nodes of those that have one; expected pods have one each.

    `reserved` are places nominated for roots: (root, priority, pods). `given` are the allocations
    of claims.
    """

    instance: Mapping[str, Any]
    pods: dict[str, Entry] = field(init=False)
    given: dict[str, list[Sequence[Any]]] = field(init=False)
    users: dict[str, list[str]] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    reserved: dict[tuple[str, str], tuple[int, list[Entry]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = copy.deepcopy(dict(self.instance))
        self.nodes = {it["name"]: it for it in made.get("nodes", ())}
        self.groups = {it["name"]: it for it in made.get("groups", ())}
        self.claims = {it["name"]: it for it in made.get("claims", ())}
        self.volumes = {it["name"]: it for it in made.get("volumes", ())}
        self.pvcs = {it["name"]: it for it in made.get("pvcs", ())}
        self.pods = {it["name"]: it for it in made.get("pods", ())}
        self.given = {it["name"]: it["given"] for it in made.get("claims", ()) if it.get("given")}
        self.users = {it["name"]: it["claims"] for it in self.pods.values() if it.get("claims")}
        for pod in self.pods.values():
            if pod.get("nominated"):
                places = [pod | {"node": pod["nominated"]}]
                self.reserved["Pod", pod["name"]] = (pod.get("priority", 0), places)

    def pod(self, name: str) -> Entry:
        """Return a pod; an expected one, GROUP/KIND/NUMBER, from its kind."""
        if name in self.pods:
            return self.pods[name]
        group, kind, _ = name.split("/")
        of = next(it for it in self.groups[group]["expects"] if it["name"] == kind)
        fields = {k: v for k, v in of.items() if k not in ("count", "stage", "name")}
        priority = self.groups[group].get("priority", 0)
        return fields | {
            "name": name, "group": group, "kind": kind, "expected": True, "priority": priority,
        }  # fmt: skip

    def above(self, group: str) -> list[Entry]:
        """Return the group and its ancestors, nearest first."""
        found = []
        while group in self.groups and self.groups[group] not in found:
            found.append(self.groups[group])
            group = self.groups[group].get("parent", "")
        return found

    def root(self, pod: Entry) -> str:
        """Return the name of the topmost group, or of the pod."""
        above = self.above(pod.get("group", ""))
        return str((above[-1] if above else pod)["name"])

    def stage(self, pod: Entry) -> Stage | None:
        group = self.groups.get(pod.get("group", ""), {})
        for kind in group.get("expects", ()):
            if kind["name"] == pod.get("kind") and kind.get("stage"):
                return (self.root(pod), kind["stage"], not pod.get("expected"))
        return None

    def present(self, gone: Collection[str] = ()) -> list[Entry]:
        """Return the pods that use resources."""
        return [
            pod
            for pod in self.pods.values()
            if pod.get("node") and pod.get("phase") not in ENDED and pod["name"] not in gone
        ]

    def apply(self, decision: Entry) -> None:
        """Apply the decision to the state."""
        key = (decision["kind"], decision["root"])
        self.reserved.pop(key, None)
        placed = [self.pod(name) | {"node": node} for name, node in decision.get("places", ())]
        if "victims" in decision:
            priority = self.priority(decision)
            self.reserved[key] = (priority, placed)
            for name in [name for unit in decision["victims"] for name in unit]:
                if self.pods[name].get("expected"):
                    self.release(name)
                else:
                    self.pods[name]["deleted"] = True
            return
        for pod in placed:
            self.pods[pod["name"]] = pod
        self.given |= decision.get("claims", {})
        self.users |= decision.get("users", {})
        self.assumed |= decision.get("volumes", {})

    def release(self, name: str) -> None:
        """Remove the pod; free its claims, and shared ones without other users."""
        pod = self.pods.pop(name)
        self.reserved.pop(("Pod", name), None)
        for claim in self.users.pop(name, ()):
            if not any(claim in self.users.get(it["name"], ()) for it in self.present()):
                self.given.pop(claim, None)
        for volume in pod.get("volumes", ()):
            if not any(volume in it.get("volumes", ()) for it in self.present()):
                self.assumed.pop(volume, None)

    def priority(self, decision: Entry) -> int:
        if decision["kind"] == "Pod":
            return int(self.pods[decision["root"]].get("priority", 0))
        return int(self.groups[decision["root"]].get("priority", 0))
