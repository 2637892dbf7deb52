"""A check of where the pods of a run are, from their own objects only, without scheduler code.

No pod that ran may have ended: the final state shows a skew, or the first pod of an affinity.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UNITS = {"m": 0.001, "": 1.0, "k": 1e3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_MIGRATED_FROM, _MIGRATED_TO = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
_QUANTITY = re.compile(r"([\d.]+)(\w*)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Objects as the API server has them; `groups` are Muster's PodGroups or the native ones."""

    pods: list[Json]
    nodes: list[Json]
    namespaces: list[Json] = field(default_factory=list)
    groups: list[Json] = field(default_factory=list)
    csi_nodes: list[Json] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)


def complaints(it: Outcome, group_of: Callable[[Json], str | None]) -> list[str]:
    """Return the faults, a sentence each; `group_of` returns the group of a pod."""
    view = _View(it)
    return [
        *view.blocked(),
        *view.node_affinity(),
        *view.taints(),
        *view.resources(),
        *view.host_ports(),
        *view.pod_affinity(),
        *view.spreading(),
        *view.volumes(),
        *view.groups(group_of),
    ]


def _name(thing: Json) -> str:
    name: str = thing["metadata"]["name"]
    return name


def _labels(thing: Json) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def _amount(text: str) -> float:
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text} is not a quantity that is used here")
    return float(found[1]) * _UNITS[found[2]]


def _requests(pod: Json) -> Counter[str]:
    total: Counter[str] = Counter({"pods": 1})
    for container in pod["spec"]["containers"]:
        asked = container.get("resources", {}).get("requests", {})
        for name, text in asked.items():
            total[name] += round(_amount(text) * 1_000)
    total["pods"] *= 1_000
    return total


def _terms(pod: Json, kind: str) -> list[Json]:
    found: list[Json] = (pod["spec"].get("affinity") or {}).get(kind, {}).get(_REQUIRED, [])
    return found


def _selects(selector: Json, labels: dict[str, str]) -> bool:
    """Match `matchLabels`, the only form in use here; an expression is an error."""
    if set(selector) - {"matchLabels"}:
        raise ValueError(f"only matchLabels can be judged, not {selector}")
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


class _View:
    def __init__(self, it: Outcome) -> None:
        self._it = it
        self._nodes = {_name(node): node for node in it.nodes}
        self._spaces = {_name(space): _labels(space) for space in it.namespaces}
        self._bound = [pod for pod in it.pods if pod["spec"].get("nodeName")]
        self._on: dict[str, list[Json]] = defaultdict(list)
        for pod in self._bound:
            self._on[pod["spec"]["nodeName"]].append(pod)

    def _labels_of_node(self, pod: Json) -> dict[str, str]:
        return _labels(self._nodes.get(pod["spec"]["nodeName"], {"metadata": {}}))

    def blocked(self) -> Iterator[str]:
        for pod in self._bound:
            if pod["spec"]["nodeName"] not in self._nodes:
                yield f"{_name(pod)} is on a node that is not there"
            if pod["spec"].get("schedulingGates"):
                yield f"{_name(pod)} is bound in spite of its gates"
            if pod["metadata"].get("deletionTimestamp"):
                yield f"{_name(pod)} is bound although it was deleted"

    def node_affinity(self) -> Iterator[str]:
        for pod in self._bound:
            required: Any = _terms(pod, "nodeAffinity")
            if required and not self._taken(required, pod["spec"]["nodeName"]):
                yield f"{_name(pod)} is on a node that its node affinity does not take"

    def _taken(self, required: Json, node: str) -> bool:
        labels = _labels(self._nodes.get(node, {"metadata": {}}))
        fields = {"metadata.name": node}
        return any(
            all(_in(each, labels) for each in term.get("matchExpressions", ()))
            and all(_in(each, fields) for each in term.get("matchFields", ()))
            for term in required["nodeSelectorTerms"]
        )

    def taints(self) -> Iterator[str]:
        for pod in self._bound:
            spec = self._nodes.get(pod["spec"]["nodeName"], {}).get("spec", {})
            if spec.get("unschedulable"):
                yield f"{_name(pod)} is on a node that is cordoned"
            if not _tolerated(pod, spec):
                yield f"{_name(pod)} is on a node with a taint that it does not tolerate"

    def resources(self) -> Iterator[str]:
        for node, pods in self._on.items():
            allocatable = self._nodes.get(node, {}).get("status", {}).get("allocatable", {})
            used: Counter[str] = Counter()
            for pod in pods:
                used.update(_requests(pod))
            for name, amount in used.items():
                if amount > _amount(allocatable.get(name, "0")) * 1_000:
                    yield f"{node} has less {name} than its pods ask for"

    def host_ports(self) -> Iterator[str]:
        for node, pods in self._on.items():
            ports = Counter(
                (port.get("hostIP", ""), port.get("protocol", "TCP"), port["hostPort"])
                for pod in pods
                for container in pod["spec"]["containers"]
                for port in container.get("ports", ())
                if port.get("hostPort")
            )
            for port, count in ports.items():
                if count > 1:
                    yield f"{node} has {count} pods with host port {port[2]}"

    def pod_affinity(self) -> Iterator[str]:
        counted: dict[str, tuple[Counter[str], int]] = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            for pod in self._bound:
                for term in _terms(pod, kind):
                    where = f"{pod['metadata'].get('namespace')} {term}"
                    if where not in counted:
                        counted[where] = self._matching(pod, term)
                    yield from self._judged(pod, kind, term, counted[where])

    def _matching(self, owner: Json, term: Json) -> tuple[Counter[str], int]:
        """Return the pods that a term selects, by domain, and their total."""
        found = [pod for pod in self._bound if self._selected(owner, term, pod)]
        key = term["topologyKey"]
        return Counter(self._labels_of_node(pod).get(key, "") for pod in found), len(found)

    def _selected(self, owner: Json, term: Json, pod: Json) -> bool:
        space, own = (it["metadata"].get("namespace", "") for it in (pod, owner))
        named = list(term.get("namespaces", ()))
        if "namespaceSelector" in term:
            inside = _selects(term["namespaceSelector"], self._spaces.get(space, {}))
        else:
            inside = space in (named or [own])
        return (inside or space in named) and _selects(term["labelSelector"], _labels(pod))

    def _judged(
        self, pod: Json, kind: str, term: Json, found: tuple[Counter[str], int]
    ) -> Iterator[str]:
        by_domain, total = found
        itself = self._selected(pod, term, pod)
        domain = self._labels_of_node(pod).get(term["topologyKey"], "")
        there = by_domain[domain] - itself if domain else 0
        if kind == "podAntiAffinity" and there:
            yield f"{_name(pod)} is with {there} pods that its anti-affinity excludes"
        alone = itself and total == 1  # the first pod of a series may be in any domain
        if kind == "podAffinity" and not there and not alone:
            yield f"{_name(pod)} is without a pod that its affinity asks for"

    def spreading(self) -> Iterator[str]:
        said = set[str]()
        for pod in self._bound:
            for rule in pod["spec"].get("topologySpreadConstraints", ()):
                space = pod["metadata"].get("namespace", "")
                if rule["whenUnsatisfiable"] != "DoNotSchedule" or f"{space} {rule}" in said:
                    continue
                said.add(f"{space} {rule}")
                if any(not self._labels_of_node(it).get(rule["topologyKey"])
                       for it in self._counted(pod, rule)):  # fmt: skip
                    yield f"pods are on nodes without {rule['topologyKey']}"
                skew = self._skew(pod, rule)
                if skew > rule["maxSkew"]:
                    yield f"skew is {skew} over {rule['topologyKey']}, not {rule['maxSkew']}"

    def _counted(self, owner: Json, rule: Json) -> list[Json]:
        """Return the bound pods that a rule selects."""
        space = owner["metadata"].get("namespace", "")
        return [
            pod
            for pod in self._bound
            if pod["metadata"].get("namespace", "") == space
            and _selects(rule["labelSelector"], _labels(pod))
        ]

    def _skew(self, owner: Json, rule: Json) -> int:
        """Return the skew over the nodes that count; here only taints exclude a node."""
        key, honor = rule["topologyKey"], rule.get("nodeTaintsPolicy") == "Honor"
        nodes = {
            name
            for name, it in self._nodes.items()
            if key in _labels(it) and (not honor or _tolerated(owner, it.get("spec", {})))
        }
        counts = Counter(
            self._labels_of_node(pod)[key]
            for pod in self._counted(owner, rule)
            if pod["spec"]["nodeName"] in nodes
        )
        domains = {_labels(self._nodes[name])[key] for name in nodes}
        fewest = min((counts[domain] for domain in domains), default=0)
        if len(domains) < rule.get("minDomains", 1):
            fewest = 0
        return max(counts.values(), default=0) - fewest

    def volumes(self) -> Iterator[str]:
        volumes = {_name(each): each["spec"] for each in self._it.volumes}
        claims = {
            (each["metadata"].get("namespace"), _name(each)): each["spec"]["volumeName"]
            for each in self._it.claims
        }
        attached: dict[tuple[str, str], set[str]] = defaultdict(set)
        users: dict[str, int] = defaultdict(int)
        migrated = {
            _name(each)
            for each in self._it.csi_nodes
            if _MIGRATED_FROM in (each["metadata"].get("annotations") or {}).get(_MIGRATED, "")
        }
        for pod in self._bound:
            node = pod["spec"]["nodeName"]
            for claim in _claims_of(pod):
                name = claims.get((pod["metadata"].get("namespace"), claim), "")
                spec = volumes.get(name)
                if spec is None:
                    yield f"{_name(pod)} runs without the volume of {claim}"
                    continue
                users[name] += 1
                affinity = spec.get("nodeAffinity", {}).get("required")
                if affinity and not self._taken(affinity, node):
                    yield f"{_name(pod)} is where {name} cannot be used"
                if "csi" in spec:
                    attached[node, spec["csi"]["driver"]].add(spec["csi"]["volumeHandle"])
                if "awsElasticBlockStore" in spec and node in migrated:
                    attached[node, _MIGRATED_TO].add(spec["awsElasticBlockStore"]["volumeID"])
        for name, count in users.items():
            if count > 1 and "ReadWriteOncePod" in volumes[name]["accessModes"]:
                yield f"{name} is used by {count} pods, and may be by one"
        yield from self._attached(attached)

    def _attached(self, attached: dict[tuple[str, str], set[str]]) -> Iterator[str]:
        limits = {
            (_name(each), driver["name"]): driver.get("allocatable", {}).get("count")
            for each in self._it.csi_nodes
            for driver in each["spec"]["drivers"]
        }
        for key, handles in attached.items():
            limit = limits.get(key)
            if limit is not None and len(handles) > limit:
                yield f"{key[0]} has {len(handles)} volumes of {key[1]}, not {limit}"

    def groups(self, group_of: Callable[[Json], str | None]) -> Iterator[str]:
        members: dict[str, list[Json]] = defaultdict(list)
        for pod in self._bound:
            if name := group_of(pod):
                members[name].append(pod)
        for group in self._it.groups:
            pods = members.get(_name(group), [])
            least = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)
            if 0 < len(pods) < least:
                yield f"{_name(group)} runs with {len(pods)} pods of {least}"
            wanted = group["spec"].get("schedulingConstraints") or {}
            for key in (each["key"] for each in wanted.get("topology", ())):
                domains = {self._labels_of_node(pod).get(key) for pod in pods}
                if len(domains) > 1 or None in domains:
                    yield f"{_name(group)} is not in one domain of {key}"


def _tolerated(pod: Json, spec: Json) -> bool:
    """Return true if a pod tolerates all taints that repel pods; only Exists is used here."""
    tolerations = pod["spec"].get("tolerations") or []
    kept = [it for it in spec.get("taints", ()) if it["effect"] in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(each, taint) for each in tolerations) for taint in kept)


def _tolerates(toleration: Json, taint: Json) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    exists = toleration.get("operator") == "Exists"
    return exists and key in (None, taint["key"]) and effect in (None, taint["effect"])


def _in(requirement: Json, values: dict[str, str]) -> bool:
    if requirement["operator"] != "In":
        raise ValueError(f"only In can be judged, not {requirement['operator']}")
    return values.get(requirement["key"]) in requirement["values"]


def _claims_of(pod: Json) -> Iterable[str]:
    for volume in pod["spec"].get("volumes", ()):
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
