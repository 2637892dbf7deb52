"""Random clusters that use all features of the scheduler at once, as plain values.

An instance is a dictionary of lists; each entry has the fields of an API object, flat and short:

nodes    name, cpu, memory, extra (an extended resource), pods, rack, block, zone, taint (effect),
         cordoned, attach (limit of volumes), devices, counter (what its devices share);
         `network` are devices that all nodes reach
devices  name, size, rail, uses (of the counter), shared (capacity of several claims), taint
groups   name, min, composite, basic, parent, key, preferred, all (disruptionMode), priority,
         never, slices: [size, key] of pods with an index, expects: kinds of expected pods, each
         with name, count, stage, asks and fields of a pod; movable, native (Kubernetes' own)
pods     name, group, index, native, kind, cpu, memory, extra, priority, node, phase, deleted,
         gated, never, app, port, rack, tolerates (all or an effect), affinity, anti, volumes,
         claims, daemon, foreign, nominated, made (by a Job), spread: app, key, skew, domains
         (minDomains), taints (that keep a pod out are honored), everywhere (nodes that the selector
         excludes count)
claims   name, ask, owner (a pod) or group, given: [node, device, option, amount] of each device
asks     count, size, constraint (same or distinct rails), amount (of a shared device), any: options
volumes  name, claim, zone, size;  pvcs: name, volume, size, one_pod, kind (class)
budgets  app, allowed;  spread: the profile, instead of pack

What has the name NAME@b is in another namespace than what has the name NAME.
A field that is missing has its usual value, so fewer fields are a simpler instance.
"""

import copy
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

Instance = dict[str, Any]
Entry = dict[str, Any]

APPS: Final = ("a", "b")
KEYS: Final = ("rack", "block", "zone", "host")
SIZES: Final = ("small", "large")
EFFECTS: Final = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")


def draw(seed: str) -> Instance:
    """Return the instance of the seed; it has most features, or none of them, by chance."""
    return _Draw(random.Random(seed)).instance()


def _elsewhere(entry: Entry, volumes: Collection[str]) -> Entry:
    """Return the entry in the other namespace, with those of its volumes that have a twin."""
    made = copy.deepcopy(entry)
    for key in ("name", "group", "parent", "owner"):
        if made.get(key):
            made[key] += "@b"
    if made.get("claims"):
        made["claims"] = [f"{it}@b" for it in made["claims"]]
    if made.get("volumes"):
        made["volumes"] = [f"{it}@b" for it in made["volumes"] if it in volumes]
    return made


def _root(entry: Entry) -> str:
    """Return the number of the root, in which the name of each of its objects begins."""
    return re.split("[-.]", entry["name"])[0].replace("top", "old")


class _Draw:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.scarce = dice.uniform(0.4, 1.1)
        self.listed = self.chance(0.4)
        self.roomy = self.chance(0.4)  # then CPU is not the scarce resource
        self.equal = self.chance(0.2)  # then nothing can be preempted, but moved
        names = ("topology", "devices", "volumes", "peers", "stages", "unequal", "running", "tree")
        # A few of them often, or all of them: excessive requests would only be rejected.
        much = dice.sample(names, dice.choice((1, 2, 2, 3, 3, len(names))))
        share = 0.4 if len(much) == len(names) else 0.8
        self.likely = {name: share if name in much else 0.0 for name in names}
        if self.equal:
            self.likely |= {"running": 1.0, "topology": 0.5}
        self.made: Instance = {"spread": True} if self.chance(0.3) else {}

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def some(self, feature: str, share: float = 1.0) -> bool:
        """Return True to use a feature now; an instance uses some of them often."""
        return self.chance(self.likely[feature] * share)

    def priority(self, of: Sequence[int]) -> int:
        return 5 if self.equal else self.dice.choice(of)

    def add(self, what: str, **fields: Any) -> Entry:
        entry = {key: value for key, value in fields.items() if value or value == 0}
        entry = {key: value for key, value in entry.items() if value is not False}
        self.made.setdefault(what, []).append(entry)
        return entry

    def instance(self) -> Instance:
        for at in range(self.dice.choice((1, 2, 2, 3, 3, 4, 5, 6))):
            self.node(at)
        if self.some("devices", 0.4):
            self.made["network"] = [self.device(at) for at in range(self.dice.randint(1, 3))]
        for feature, make in (("volumes", self.volume), ("running", self.running)):
            for at in range(self.dice.randint(1, 4) if self.some(feature) else 0):
                make(at)
        for at in range(self.dice.choice((1, 1, 2, 3))):
            self.waiting(at)
        if self.some("running", 0.7):
            for app in self.dice.sample((*APPS, "a@b"), self.dice.randint(1, 2)):
                self.add("budgets", app=app, allowed=self.dice.randint(0, 2))
        if self.chance(0.25):
            self.make_native()
        if self.chance(0.25):
            self.twins()
        return self.made

    def make_native(self) -> None:
        """Make some roots Kubernetes' own groups, which have neither expected pods nor claims."""
        groups = self.made.get("groups", ())
        owners = {it["group"] for it in self.made.get("claims", ()) if it.get("group")}
        kept = {_root(it) for it in groups if it.get("expects") or it["name"] in owners}
        roots = {root for root in {_root(it): 0 for it in groups} if self.chance(0.6)} - kept
        for entry in (*groups, *self.made.get("pods", ())):
            if _root(entry) in roots and not entry.get("foreign"):
                entry["native"] = True

    def node(self, at: int) -> None:
        dice, limit = self.dice, self.some("volumes", 0.7)
        devices = dice.randint(1, 4) if self.some("devices") else 0
        counter = dice.randint(2, 4) if devices and self.chance(0.3) else 0
        self.add(
            "nodes",
            name=f"n{at}",
            cpu=dice.randint(1, 6) * (4 if self.roomy else 1),
            memory=dice.randint(2, 8) if self.some("unequal") else 0,
            pods=dice.randint(1, 4) if self.some("unequal", 0.3) else 0,
            rack=f"r{dice.randint(0, 2)}" if self.chance(0.9) else "",
            block=f"b{dice.randint(0, 1)}" if self.chance(0.9) else "",
            zone=f"z{dice.randint(0, 1)}",
            extra=dice.randint(0, 3) if self.some("unequal", 0.4) else "",
            taint=dice.choice(EFFECTS) if self.chance(0.15) else "",
            cordoned=self.chance(0.05),
            **({"attach": dice.randint(1, 3)} if limit else {}),
            devices=[self.device(number, counter) for number in range(devices)],
            counter=counter,
        )

    def device(self, at: int, counter: int = 0) -> Entry:
        dice = self.dice
        fields: Entry = {"name": f"d{at}", "size": dice.choice(SIZES), "rail": dice.randint(0, 1)}
        if counter:
            fields["uses"] = dice.choice((1, 1, 2))
        elif self.chance(0.25):
            fields["shared"] = dice.randint(1, 3)
        if self.chance(0.05):
            fields["taint"] = True
        return fields

    def volume(self, at: int) -> None:
        """Add a claim: bound to a volume, or waiting for an existing or provisioned one."""
        dice, kind = self.dice, self.dice.choice(("", "", "hand", "later"))
        if kind != "later":
            zone, claim = dice.choice(("", "z0", "z1")), "" if kind else f"c{at}"
            self.add("volumes", name=f"v{at}", claim=claim, zone=zone, size=dice.randint(1, 3))
        bound = "" if kind else f"v{at}"
        size = dice.randint(1, 3) if kind else 1
        self.add(
            "pvcs", name=f"c{at}", volume=bound, kind=kind, size=size, one_pod=self.chance(0.2)
        )

    # What runs already.

    def running(self, at: int) -> None:
        dice, name = self.dice, f"old{at}"
        priority = self.priority((0, 0, 1, 5, 9))
        fields = {"min": dice.randint(1, 3), "priority": priority, "all": self.chance(0.4)}
        movable = {"movable": True} if self.chance(0.9 if self.equal else 0.2) else {}
        alone = self.chance(0.1 if self.equal else 0.4)
        if not alone:
            parent = ""
            if self.some("tree", 0.5):
                parent = f"top{at}"
                self.add("groups", name=parent, composite=True, **movable, **fields | {"min": 1})
            group = self.add(
                "groups", name=name, parent=parent, slices=self.slices(4), **fields,
                **({} if parent else movable), **(self.topology() if movable else {}),
            )  # fmt: skip
        for number in range(1 if alone else dice.randint(1, 4)):
            node = dice.choice(self.made["nodes"])
            if node.get("cordoned"):
                continue
            pod = self.pod(f"{name}-{number}", peers=0.6)
            if pod["cpu"] > self.free(node):
                continue
            pod |= {"node": node["name"], "priority": priority, "phase": "Running"}
            pod |= {} if alone else {"group": name, "index": number, "made": True}
            pod |= self.circumstance(alone=alone)
            self.made.setdefault("pods", []).append(pod)
            if self.some("devices", 0.2 if self.equal else 0.6):
                self.hold_device(pod, node)
        if self.equal and not alone:
            runs = sum(it.get("group") == name for it in self.made.get("pods", ()))
            group["min"] = max(1, min(group["min"], runs))

    def circumstance(self, *, alone: bool) -> Entry:
        """Return a special state of a running pod, if any."""
        if self.chance(0.02 if self.equal else 0.1):
            return {"deleted": True}
        if alone and self.chance(0.3):
            return {self.dice.choice(("daemon", "foreign")): True}
        return {"phase": self.dice.choice(("Succeeded", "Failed"))} if self.chance(0.1) else {}

    def free(self, node: Entry) -> int:
        pods = self.made.get("pods", ())
        cpu: int = node["cpu"]
        taken: int = sum(it["cpu"] for it in pods if it.get("node") == node["name"])
        return cpu - taken

    def hold_device(self, pod: Entry, node: Entry) -> None:
        """Give the pod an unused device of the node."""
        claims = self.made.get("claims", ())
        taken = {tuple(it[:2]) for claim in claims for it in claim.get("given", ())}
        for device in node.get("devices", ()):
            at = (node["name"], device["name"])
            held = sum(1 for name, _ in taken if name == node["name"])
            if at in taken or 2 * held >= node.get("counter", 99) - 1:
                continue
            key = f"{pod['name']}-0"
            amount = 1 if device.get("shared") else 0
            self.add("claims", name=key, ask={}, owner=pod["name"], given=[[*at, 0, amount]])
            pod["claims"] = [key]
            return

    # What waits.

    def waiting(self, at: int) -> None:
        dice, name = self.dice, f"g{at}"
        priority = self.priority((0, 1, 5, 5, 9))
        common: Entry = {"priority": priority, "never": self.chance(0.1)}
        if self.chance(0.12):
            self.single(name, common)
        elif self.some("tree"):
            self.tree(name, common, "", dice.randint(2, 3))
        else:
            self.leaf(name, common, "")

    def single(self, name: str, common: Entry) -> None:
        foreign = self.chance(0.2)
        pod = self.pod(name) | {key: value for key, value in common.items() if value}
        if foreign:
            pod |= {"foreign": True, "nominated": self.dice.choice(self.made["nodes"])["name"]}
            pod.pop("volumes", None)
        self.made.setdefault("pods", []).append(pod)
        if not foreign:
            self.give_claims(pod, "")

    def tree(self, name: str, common: Entry, parent: str, depth: int) -> None:
        dice, count = self.dice, self.dice.randint(1, 3)
        self.add(
            "groups", name=name, composite=True, parent=parent, min=dice.randint(1, count),
            basic=self.chance(0.1), all=False, **common, **self.topology(),
        )  # fmt: skip
        for at in range(count):
            child = f"{name}.{at}"
            if depth > 2 and self.chance(0.4):
                self.tree(child, common, name, depth - 1)
            else:
                self.leaf(child, common, name)

    def topology(self) -> Entry:
        if not self.some("topology"):
            return {}
        return {"key": self.dice.choice(KEYS), "preferred": self.chance(0.45)}

    def leaf(self, name: str, common: Entry, parent: str) -> None:
        dice, count = self.dice, self.dice.randint(1, 5)
        kinds = [self.pod("") for _ in range(2 if self.some("unequal") else 1)]
        group = self.add(
            "groups", name=name, parent=parent, min=dice.choice((count, dice.randint(1, count))),
            basic=self.chance(0.08), all=self.chance(0.2), **common, **self.topology(),
        )  # fmt: skip
        if not self.chance(0.15) and self.some("stages"):
            self.expecting(group, kinds, count)
            return
        if slices := self.slices(count):
            group["slices"] = slices
        own = [self.asks() for _ in kinds]
        some = next((it[0] for it in own if it), {})
        shared = self.shared_claim(name, some) if self.some("devices", 0.5) else ""
        for at in range(count):
            kind = dice.randrange(len(kinds))
            pod = kinds[kind] | {
                "name": f"{name}-{at}",
                "group": name,
                "index": at,
                "priority": common["priority"],
            }
            if self.chance(0.06):
                pod["gated"] = True
            elif self.chance(0.06):
                self.starts(pod)
            self.made.setdefault("pods", []).append(pod)
            if "node" not in pod:
                self.give_claims(pod, shared if self.chance(0.6) else "", own[kind])

    def slices(self, pods: int) -> list[Any]:
        """Return size and topology key of a group's slices; empty for a group without any."""
        if not self.some("topology", 0.35):
            return []
        return [self.dice.randint(1, pods), self.dice.choice(KEYS)]

    def starts(self, pod: Entry) -> None:
        """Start a member in advance, if its own node fits it."""
        node = self.dice.choice(self.made["nodes"])
        if self.free(node) >= pod["cpu"] and not pod.get("volumes"):
            pod |= {"node": node["name"], "phase": "Running"}
            if self.chance(0.2):
                pod["deleted"] = True

    def expecting(self, group: Entry, kinds: Sequence[Entry], count: int) -> None:
        """Create a group with existing and expected pods, in stages or not."""
        dice, name = self.dice, group["name"]
        expects, total = [], 0
        for at, template in enumerate(kinds if len(kinds) > 1 else [*kinds, *kinds]):
            fields = {k: value for k, value in template.items() if k not in ("name", "volumes")}
            number, stage = dice.randint(1, max(1, count)), dice.choice((0, 1, 2, 2))
            kind = fields | {"name": f"k{at}", "count": number, "stage": stage}
            if self.some("devices", 0.5):
                kind["asks"] = [self.ask()]
            expects.append(kind)
            total += number
        group["expects"], group["min"] = expects, dice.choice((total, dice.randint(1, total)))
        for kind in expects[: dice.randint(1, 2)]:
            for at in range(dice.choice((1, 1, kind["count"]))):
                pod = {k: v for k, v in kind.items() if k not in ("name", "count", "stage", "asks")}
                pod |= {"name": f"{name}-{kind['name']}-{at}", "group": name, "kind": kind["name"]}
                pod["priority"] = group.get("priority", 0)
                self.made.setdefault("pods", []).append(pod)
                self.give_claims(pod, "", kind.get("asks", ()))

    def pod(self, name: str, peers: float = 1.0) -> Entry:
        dice = self.dice
        most = max(1, round(3 * self.scarce))
        pod: Entry = {"name": name, "cpu": dice.randint(1, most)}
        for resource, share, amount in (("memory", 0.5, 3), ("extra", 0.2, 2)):
            if self.some("unequal", share):
                pod[resource] = dice.randint(1, amount)
        if self.chance(0.6):
            pod["app"] = dice.choice(APPS)
        if self.some("peers", 0.3 * peers):
            pod["port"] = dice.choice((80, 81))
        for term, share in (("affinity", 0.2), ("anti", 0.35)):
            if self.some("peers", share * peers):
                pod[term] = [[dice.choice(APPS), dice.choice(KEYS)]]
        if self.some("peers", 0.3 * peers):
            pod["spread"] = [self.spread(pod.get("app", "a"))]
        self.node_terms(pod)
        if self.made.get("pvcs") and peers == 1 and self.some("volumes", 0.7):
            pod["volumes"] = [dice.choice(self.made["pvcs"])["name"]]
        return pod

    def node_terms(self, pod: Entry) -> None:
        if self.some("topology", 0.15):
            pod["rack"] = f"r{self.dice.randint(0, 1)}"
        if self.chance(0.2):
            pod["tolerates"] = self.dice.choice((True, True, "NoSchedule", "NoExecute"))

    def spread(self, app: str) -> Entry:
        dice = self.dice
        term: Entry = {"app": app, "key": dice.choice(KEYS), "skew": dice.randint(1, 2)}
        if self.chance(0.3):
            term["domains"] = dice.randint(1, 3)
        return term | {it: True for it in ("taints", "everywhere") if self.chance(0.3)}

    def twins(self) -> None:
        """Give pending roots a twin of the same names in another namespace, or move them."""
        kept, twins = dict[str, bool](), dict[str, bool]()
        unbound = {it["name"]: it for it in self.made.get("pvcs", ()) if it.get("kind")}
        claimed = dict[str, Entry]()
        for what in ("groups", "pods", "claims"):
            here, there = list[Entry](), list[Entry]()
            for entry in self.made.get(what, ()):
                root = _root(entry)
                waits = root[0] == "g"
                if kept.setdefault(root, not waits or self.chance(0.7)):
                    here.append(entry)
                if waits and twins.setdefault(root, not kept[root] or self.chance(0.5)):
                    there.append(_elsewhere(entry, unbound))
                    claimed |= {it: unbound[it] for it in entry.get("volumes", ()) if it in unbound}
            self.made |= {what: here + there} if here or there else {}
        self.made.setdefault("pvcs", []).extend(_elsewhere(it, {}) for it in claimed.values())

    # Devices.

    def asks(self) -> list[Entry]:
        return (
            [self.ask() for _ in range(self.dice.choice((1, 1, 2)))] if self.some("devices") else []
        )

    def ask(self) -> Entry:
        dice, ask = self.dice, dict[str, Any]()
        if self.listed and self.chance(0.7):
            options: list[Entry] = [{"count": 2}, {"count": 1}]
            for option in options:
                if self.chance(0.2):
                    option["size"] = dice.choice(SIZES)
            return {"any": options}
        if self.chance(0.5):
            return ask
        if self.chance(0.35):
            ask["count"] = 2
            if self.chance(0.4):
                ask["constraint"] = dice.choice(("same", "distinct"))
        if self.chance(0.3):
            ask["size"] = dice.choice(SIZES)
        if self.chance(0.15):
            ask["amount"] = 1
        return ask

    def shared_claim(self, group: str, own: Entry) -> str:
        name = f"{group}-shared"
        owner = group if self.chance(0.5) else ""
        ask = own if self.chance(0.6) else self.ask()
        self.add("claims", name=name, group=owner, ask=ask)["ask"] = ask
        return name

    def give_claims(self, pod: Entry, shared: str, asks: Sequence[Entry] = ()) -> None:
        """Add the pod's own claims, and one that it names."""
        names = []
        for at, ask in enumerate(asks):
            names.append(f"{pod['name']}-{at}")
            self.add("claims", name=names[-1], owner=pod["name"])["ask"] = ask
        if shared:
            names.append(shared)
        if names:
            pod["claims"] = names


_GROUP: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "tree": lambda it: bool(it.get("composite")),
    "required topology": lambda it: bool(it.get("key")) and not it.get("preferred"),
    "preferred topology": lambda it: bool(it.get("key") and it.get("preferred")),
    "slices": lambda it: bool(it.get("slices")),
    "basic": lambda it: bool(it.get("basic")),
    "native": lambda it: bool(it.get("native")),
    "movable": lambda it: bool(it.get("movable")),
    "mode all": lambda it: bool(it.get("all")),
    "Never": lambda it: bool(it.get("never")),
    "expected pods": lambda it: bool(it.get("expects")),
    "stages": lambda it: any(kind.get("stage") for kind in it.get("expects", ())),
}
_POD: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "single pod": lambda it: not it.get("group") and not it.get("node") and not it.get("foreign"),
    "gate": lambda it: bool(it.get("gated")),
    "port": lambda it: bool(it.get("port")),
    "affinity": lambda it: bool(it.get("affinity")),
    "anti-affinity": lambda it: bool(it.get("anti")),
    "spread": lambda it: bool(it.get("spread")),
    "minDomains": lambda it: any(term.get("domains") for term in it.get("spread", ())),
    "node inclusion": lambda it: any(
        term.get("taints") or term.get("everywhere") for term in it.get("spread", ())
    ),
    "toleration": lambda it: bool(it.get("tolerates")),
    "extended resource": lambda it: bool(it.get("extra")),
    "two namespaces": lambda it: it["name"].endswith("@b"),
    "node selector": lambda it: bool(it.get("rack")),
    "running": lambda it: bool(it.get("node")),
    "terminating": lambda it: bool(it.get("deleted")),
    "nominated": lambda it: bool(it.get("nominated")),
    "volume": lambda it: bool(it.get("volumes")),
}
_CLAIM: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "own claim": lambda it: bool(it.get("owner")) and not it.get("given"),
    "shared claim": lambda it: not it.get("owner") and not it.get("group"),
    "group claim": lambda it: bool(it.get("group")),
    "firstAvailable": lambda it: bool(it.get("ask", {}).get("any")),
    "device constraint": lambda it: bool(it.get("ask", {}).get("constraint")),
}


def features(instance: Instance) -> list[str]:
    """Return the features of the instance, by name."""
    nodes, groups = instance.get("nodes", ()), instance.get("groups", ())
    pods, claims = instance.get("pods", ()), instance.get("claims", ())
    devices = [it for node in nodes for it in node.get("devices", ())]
    sizes: dict[str, int] = {}
    shapes: dict[str, set[tuple[int, int]]] = {}
    for pod in pods:
        group = pod.get("group", "")
        sizes[group] = sizes.get(group, 0) + 1
        shapes.setdefault(group, set()).add((pod["cpu"], pod.get("memory", 0)))
    found = {
        "minCount below n": any(it.get("min", 1) < sizes.get(it["name"], 0) for it in groups),
        "unequal pods": any(len(it) > 1 for group, it in shapes.items() if group),
        "partitions": any(it.get("uses") for it in devices),
        "shared capacity": any(it.get("shared") for it in devices),
        "profile spread": bool(instance.get("spread")),
        "network devices": bool(instance.get("network")),
        "attach limit": any("attach" in node for node in nodes),
        "taint": any(node.get("taint") for node in nodes),
        "budget": bool(instance.get("budgets")),
        "priorities": len({it.get("priority", 0) for it in (*pods, *groups)}) > 1,
    }
    for table, entries in ((_GROUP, groups), (_POD, pods), (_CLAIM, claims)):
        found |= {name: any(map(test, entries)) for name, test in table.items()}
    return sorted(name for name, there in found.items() if there)
