"""What runs and what is reserved, as plain values: what a decision is judged by."""

import copy
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Entry = dict[str, Any]
Stage = tuple[str, int, bool]
"""The tree, the number of the stage, and whether the pod exists. Those that exist run at once."""

NETWORK: Final = "net"
ENDED: Final = ("Succeeded", "Failed")


def load(items: Iterable[tuple[int, Stage | None]]) -> int:
    """The most that is in use at a time: of each tree, pods of one stage, or all that exist."""
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
    """The namespace of a pod: what follows the @ of its name, or of its group's if expected."""
    return str(entry["name"]).split("/")[0].partition("@")[2]


def keeps_out(node: Entry, pod: Entry) -> bool:
    """Whether the taint of the node keeps the pod out."""
    tolerated = pod.get("tolerates") in (True, node.get("taint"))
    return node.get("taint") in ("NoSchedule", "NoExecute") and not tolerated


@dataclass
class Cluster:
    """Pods by name, with their nodes as far as they have some; those expected have one each.

    `reserved` are places nominated for roots: (root, priority, pods). `given` is what claims have.
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
        """A pod; of an expected one, GROUP/KIND/NUMBER, what its kind says."""
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
        """The group and its ancestors, the nearest first."""
        found = []
        while group in self.groups and self.groups[group] not in found:
            found.append(self.groups[group])
            group = self.groups[group].get("parent", "")
        return found

    def root(self, pod: Entry) -> str:
        """The name of the topmost group, or of the pod."""
        above = self.above(pod.get("group", ""))
        return str((above[-1] if above else pod)["name"])

    def stage(self, pod: Entry) -> Stage | None:
        group = self.groups.get(pod.get("group", ""), {})
        for kind in group.get("expects", ()):
            if kind["name"] == pod.get("kind") and kind.get("stage"):
                return (self.root(pod), kind["stage"], not pod.get("expected"))
        return None

    def present(self, gone: Collection[str] = ()) -> list[Entry]:
        """The pods that take room."""
        return [
            pod
            for pod in self.pods.values()
            if pod.get("node") and pod.get("phase") not in ENDED and pod["name"] not in gone
        ]

    def apply(self, decision: Entry) -> None:
        """What holds once the decision is being carried out."""
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
        """The pod is gone; its claims, and shared ones that nobody else uses, are free."""
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
