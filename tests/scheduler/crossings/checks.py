"""Checks decisions by the documents alone, from instances and decisions, without any code.

A decision names its root, the node of each pod, the devices of claims, the volumes of claims, and
the victims by unit. The check finds rules that a decision violates, but not wrong rejections.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tests.scheduler.crossings.cluster import ENDED, Cluster, Entry, space
from tests.scheduler.crossings.device_rules import DeviceRules
from tests.scheduler.crossings.node_rules import NodeRules
from tests.scheduler.crossings.peer_rules import PeerRules

STEPS: Final = 500


def complaints(cluster: Cluster, decision: Entry) -> list[str]:
    """Return the violations of a decision, given the previous state."""
    found = []
    if decision.get("steps", 0) > STEPS + _preferring(cluster, decision["root"]):
        found.append(f"{decision['steps']} steps")
    if not decision.get("places"):
        return found
    if "victims" not in decision:
        return [*found, *_Placement(cluster, decision).complaints()]
    leaving = {it["name"] for it in cluster.present() if it.get("deleted")}
    found += _about_victims(cluster, decision, leaving)
    gone = leaving | {name for unit in decision["victims"] for name in unit}
    found += (
        f"once the victims are gone: {it}"
        for it in _Placement(cluster, decision, gone).complaints()
    )
    ordered = any(cluster.pod(name).get("spread") for name, _ in decision["places"])
    if decision["minimal"] and not found and not ordered:
        for unit in decision["victims"]:
            if not any(_Placement(cluster, decision, gone - {*unit}).complaints()):
                found.append(f"{unit} are evicted without effect")
    if len(decision["places"]) == 1 and not found:
        found += _needless_violations(cluster, decision, leaving)
    return found


def _preferring(cluster: Cluster, root: str) -> int:
    """Return the number of groups in the tree that prefer a topology.

    The complete region always keeps a step.
    """
    preferring = (name for name, it in cluster.groups.items() if it.get("preferred"))
    return sum(cluster.above(name)[-1]["name"] == root for name in preferring)


def lasting(cluster: Cluster, bound: Collection[str]) -> list[str]:
    """Return the violations of pods that were `bound`, whatever has changed since."""
    here = [it for it in cluster.present() if it["name"] in bound and it["node"] in cluster.nodes]
    decision = {"root": "", "kind": "", "places": [], "claims": dict(cluster.given)}
    judged = _Placement(cluster, decision)
    names = {it["name"] for it in here}
    judged.before = [it for it in judged.before if it["name"] not in names]
    judged.new = here
    return [*judged.lasting()]


def move_complaints(cluster: Cluster, root: Entry, moves: Sequence[Entry]) -> list[str]:
    """Return the violations of a plan that moves gangs for a root.

    The root must fit without them, and all their pods once it has its nodes.
    """
    moved = {name for each in moves for name, _ in each["places"]}
    leaving = {it["name"] for it in cluster.present() if it.get("deleted")}
    found = [it for each in moves for it in _about_mover(cluster, each, cluster.priority(root))]
    for budget in cluster.instance.get("budgets", ()):
        if sum(_protects(budget, cluster.pods[it]) for it in moved) > budget["allowed"]:
            found.append(f"the budget of {budget['app']} is violated")
    starts = _Placement(cluster, root | {"victims": []}, moved | leaving).complaints()
    found += (f"once others have moved: {it}" for it in starts)
    after = copy.deepcopy(cluster)
    for name in leaving:
        after.release(name)
    for name in moved:
        after.pods[name] |= {"node": "", "phase": "Pending"}
    after.apply(root)
    for each in moves:
        returns = _Placement(after, each).complaints()
        found += (f"{each['root']} does not fit again: {it}" for it in returns)
        after.apply(each)
    return found


def _about_mover(cluster: Cluster, move: Entry, priority: int) -> Iterator[str]:
    name = move["root"]
    pods = [it for it in cluster.pods.values() if cluster.root(it) == name]
    pods = [it for it in pods if it.get("phase") not in ENDED]
    if {it["name"] for it in pods} != {it for it, _ in move["places"]}:
        yield f"{name} is moved in part"
    if not cluster.groups[name].get("movable"):
        yield f"{name} is moved, but may not be moved"
    if cluster.priority(move) > priority:
        yield f"{name} is moved, whose priority is higher"
    for pod in pods:
        if not pod.get("node") or pod.get("deleted") or not pod.get("made"):
            yield f"{pod['name']} is moved, which does not run or would not return"
        if pod.get("claims") or pod.get("volumes"):
            yield f"{pod['name']} is moved, which has claims"


def _about_victims(cluster: Cluster, decision: Entry, leaving: Collection[str]) -> Iterator[str]:
    priority = cluster.priority(decision)
    root = decision["root"]
    waiting = [
        it for it in cluster.pods.values() if cluster.root(it) == root and not it.get("node")
    ]
    never = cluster.groups.get(root, {}).get("never") or any(it.get("never") for it in waiting)
    if never and decision["victims"]:
        yield "it evicts others although its preemptionPolicy is Never"
    for unit in decision["victims"]:
        whole = {name for it in unit for name in _unit(cluster, it)} - {*leaving}
        if whole != {*unit}:
            yield f"{unit} are evicted, {sorted(whole)} are one unit"
        for name in unit:
            pod = cluster.pods[name]
            above = cluster.above(pod.get("group", ""))
            own = pod.get("priority", 0)
            if min([own, *(it.get("priority", 0) for it in above[-1:])]) >= priority:
                yield f"{name} is evicted, whose priority is not lower"
            if pod.get("daemon"):
                yield f"{name} is evicted, a DaemonSet's pod"
            if name in leaving or not pod.get("node") or pod.get("phase") in ENDED:
                yield f"{name} is evicted, which does not run"


def _needless_violations(
    cluster: Cluster, decision: Entry, leaving: Collection[str]
) -> Iterator[str]:
    """Yield a violated budget if a single pod fits where only unprotected units are evicted."""
    (name, _), *_ = decision["places"]
    pod = cluster.pod(name)
    if pod.get("volumes") or pod.get("claims") or pod.get("asks"):
        return
    if pod.get("spread") and any(map(cluster.stage, cluster.present())):
        return  # a fit depends on the order of the stages
    victims = [cluster.pods[it] for unit in decision["victims"] for it in unit]
    violated = [
        budget["app"]
        for budget in cluster.instance.get("budgets", ())
        if sum(_protects(budget, it) for it in victims) > budget["allowed"]
    ]
    gone = {*leaving, *_unprotected(cluster, cluster.priority(decision), leaving)}
    for node in cluster.nodes if violated else ():
        instead = decision | {"places": [[name, node]]}
        if not any(_Placement(cluster, instead, gone).complaints()):
            yield f"the budgets of {violated} are violated, and {name} fits {node} without"


def _unprotected(cluster: Cluster, priority: int, leaving: Collection[str]) -> Iterator[str]:
    """Yield the pods of units of lower priority that no budget protects."""
    for pod in cluster.present():
        unit = [cluster.pods[it] for it in {pod["name"], *_unit(cluster, pod["name"])} - {*leaving}]
        roots = [above for it in unit for above in cluster.above(it.get("group", ""))[-1:]]
        budgets = cluster.instance.get("budgets", ())
        if all(it.get("priority", 0) < priority for it in (*unit, *roots)) and not any(
            it.get("daemon") or it.get("foreign") or any(_protects(each, it) for each in budgets)
            for it in unit
        ):
            yield pod["name"]


def _protects(budget: Entry, pod: Entry) -> bool:
    app, _, space_of = str(budget["app"]).partition("@")
    return pod.get("app") == app and space(pod) == space_of


def _unit(cluster: Cluster, name: str) -> set[str]:
    """Return the pods that are evicted together with this one."""
    whole = [
        it["name"] for it in cluster.above(cluster.pods[name].get("group", "")) if it.get("all")
    ]
    if not whole:
        return _slice(cluster, name)
    return {
        it["name"]
        for it in cluster.present()
        if any(above["name"] == whole[-1] for above in cluster.above(it.get("group", "")))
    }


def _slice(cluster: Cluster, name: str) -> set[str]:
    """Return the pods of the slice of this one; without slices, this one."""
    pod = cluster.pods[name]
    size, _ = cluster.groups.get(pod.get("group", ""), {}).get("slices", (0, ""))
    if not size:
        return {name}
    return {
        it["name"]
        for it in cluster.present()
        if it.get("group") == pod["group"] and it["index"] // size == pod["index"] // size
    }


class _Placement(NodeRules, PeerRules, DeviceRules):
    """All rules."""

    def complaints(self) -> Iterator[str]:
        yield from self._members()
        unknown = {pod["node"] for pod in self.new} - self.cluster.nodes.keys()
        if unknown:
            yield f"there are no nodes {unknown}"
            return
        yield from self.capacity()
        for pod in self.new:
            yield from self.filters(pod)
            yield from self.peers(pod)
            yield from self.volumes(pod)
            yield from self.claims(pod)
        yield from self.devices()
        yield from self._minimums()
        yield from self._topology()
        yield from self._slices()

    def lasting(self) -> Iterator[str]:
        """Yield violations of rules that apply to running pods."""
        yield from self.capacity()
        for pod in self.new:
            yield from self.keeps_away(pod)
            yield from self.volumes(pod)
            yield from self.claims(pod)
        yield from self.devices()
        yield from self._topology()

    def _members(self) -> Iterator[str]:
        cluster, names = self.cluster, [pod["name"] for pod in self.new]
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{name} is placed {count} times"
        for group in {pod.get("group", "") for pod in self.new} & cluster.groups.keys():
            yield from self._expected(cluster.groups[group], names)
        for pod in self.new:
            if cluster.root(pod) != self.decision["root"]:
                yield f"{pod['name']} is not of this root"
            known = cluster.pods.get(pod["name"], {})
            if known.get("node") or known.get("deleted") or known.get("gated"):
                yield f"{pod['name']} does not wait"
            if known.get("phase") in ENDED or known.get("foreign"):
                yield f"{pod['name']} is not to be placed"

    def _expected(self, group: Entry, names: Collection[str]) -> Iterator[str]:
        """Yield a violation if there are more expected pods than missing ones."""
        others = [it for it in self.cluster.pods.values() if it["name"] not in names]
        pods = [it for it in (*others, *self.new) if it.get("group") == group["name"]]
        for kind in group.get("expects", ()):
            of_kind = [it for it in pods if it.get("kind") == kind["name"]]
            held = sum(bool(it.get("expected")) for it in of_kind)
            if held and len(of_kind) > kind["count"]:
                yield f"{group['name']} has {len(of_kind)} pods {kind['name']} of {kind['count']}"

    def _runs(self, group: str) -> int:
        """Return the number of members that count for minCount."""
        names = {pod["name"] for pod in self.new}
        running = [
            it
            for it in self.cluster.pods.values()
            if it["name"] not in names | {*self.gone}
            and (it.get("node") and not it.get("deleted") and it.get("phase") != "Failed")
        ]
        return sum(it.get("group") == group for it in (*running, *self.new))

    def _standing(self, group: Entry) -> bool:
        least = 1 if group.get("basic") else group.get("min", 1)
        if not group.get("composite"):
            return self._runs(group["name"]) >= least
        children = [it for it in self.cluster.groups.values() if it.get("parent") == group["name"]]
        return sum(map(self._standing, children)) >= least

    def _minimums(self) -> Iterator[str]:
        groups = {
            it["name"]: it for pod in self.new for it in self.cluster.above(pod.get("group", ""))
        }
        for name, group in sorted(groups.items()):
            if not self._standing(group):
                yield f"{name} has pods, and fewer than its minimum"

    def _slices(self) -> Iterator[str]:
        """Yield the slices that are in several domains, or start in part; and gangs of too few."""
        for name in sorted({pod.get("group", "") for pod in self.new}):
            group = self.cluster.groups.get(name, {})
            if not group.get("slices"):
                continue
            size, key = group["slices"]
            there = self._members_by_slice(name, size)
            for number in sorted({pod["index"] // size for pod in self.new_of(name)}):
                yield from self._slice(f"slice {number} of {name}", there[number], size, key)
            least = -(-(1 if group.get("basic") else group.get("min", 1)) // size)
            complete = sum(len(members) == size for members in there.values())
            before = self._runs(name) - len(self.new_of(name))
            if before < (1 if group.get("basic") else group.get("min", 1)) and complete < least:
                yield f"{name} has {complete} complete slices, and needs {least}"

    def new_of(self, group: str) -> list[Entry]:
        return [pod for pod in self.new if pod.get("group") == group]

    def _members_by_slice(self, group: str, size: int) -> dict[int, list[Entry]]:
        """Return the pods of each slice that have a node or have succeeded."""
        names = {pod["name"] for pod in self.new}
        found = defaultdict[int, list[Entry]](list)
        for pod in (*self.cluster.pods.values(), *self.new):
            known = pod["name"] in names and pod not in self.new
            ended = pod.get("deleted") or pod.get("phase") == "Failed" or pod["name"] in self.gone
            if pod.get("group") == group and pod.get("node") and not (known or ended):
                found[pod["index"] // size].append(pod)
        return found

    def _slice(self, title: str, members: list[Entry], size: int, key: str) -> Iterator[str]:
        names = {pod["name"] for pod in self.new}
        if all(pod["name"] in names for pod in members) and len(members) < size:
            yield f"{title} starts with {len(members)} of {size} pods"
        keys = [it["key"] for it in self.cluster.above(members[0]["group"])[::-1] if it.get("key")]
        living = [pod for pod in members if pod.get("phase") != "Succeeded"]
        paths = {
            tuple(self.value(pod["node"], it) for it in dict.fromkeys([*keys, key]))
            for pod in living
        }
        if len(paths) > 1:
            yield f"{title} is in {sorted(map(str, paths))}"
        if any(self.value(pod["node"], key) is None for pod in living if pod["name"] in names):
            yield f"{title} has pods on nodes without {key}"

    def _topology(self) -> Iterator[str]:
        cluster = self.cluster
        living = [it for it in (*self.before, *self.new) if not it.get("deleted")]
        groups = {it["name"]: it for pod in self.new for it in cluster.above(pod.get("group", ""))}
        for name, group in sorted(groups.items()):
            if not group.get("key") or group.get("preferred"):
                continue
            above = [it["key"] for it in cluster.above(name)[1:] if it.get("key")]
            keys = [*dict.fromkeys([*above[::-1], group["key"]])]
            members = [
                it
                for it in living
                if any(above["name"] == name for above in cluster.above(it.get("group", "")))
            ]
            if any(
                self.value(it["node"], group["key"]) is None for it in members if it in self.new
            ):
                yield f"{name} has pods on nodes without {group['key']}"
            paths = {tuple(self.value(it["node"], key) for key in keys) for it in members}
            if len(paths) > 1:
                yield f"{name} requires one {group['key']}, and is in {sorted(map(str, paths))}"
