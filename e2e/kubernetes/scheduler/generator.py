"""Random small clusters and pods that use every filter, the same for the same seed."""

import random
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.core.values.model import Release

Json = dict[str, Any]

NODES: Final = 6
CANDIDATES: Final = 25
_ZONE: Final = "topology.kubernetes.io/zone"
_APPS: Final = ("web", "db", "cache")
_DRIVER: Final = "csi.example"
_MEASURED: Final = "space.example"
"""A driver that publishes its capacity."""
_CLASSES: Final = ("hand", "hand", "later", "space", "space")
_NOBODY: Final = "kubernetes.io/no-provisioner"
_TAINTS: Final = (("gpu", "NoSchedule"), ("old", "NoExecute"), ("far", "PreferNoSchedule"))
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_HOST: Final = "kubernetes.io/hostname"
_KEYS: Final = (_ZONE, "rack", _HOST)
_MODES: Final = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany")
_TIERS: Final = ("gold", "silver")
_MONITORS: Final = ("10.1.0.1:6789", "10.1.0.2:6789", "10.1.0.3:6789")
_RESTART: Final = "RestartAllContainersOnContainerExits"
_TAKEN_OVER: Final = ("pd.csi.storage.gke.io", "ebs.csi.aws.com", "disk.csi.azure.com")
"""Drivers that attach disks which pods name without a claim."""


@dataclass
class Scenario:
    """All objects of one cluster; `running` are bound, `candidates` are to be decided alone.

    Pods that are `leaving` and volumes (by name) that are `withdrawn` are deleted and remain
    terminating.
    """

    namespaces: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    csi_nodes: list[Json] = field(default_factory=list)
    csi_drivers: list[Json] = field(default_factory=list)
    capacities: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    running: list[Json] = field(default_factory=list)
    candidates: list[Json] = field(default_factory=list)
    leaving: list[Json] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)


def scenario(seed: int, number: int, release: Release) -> Scenario:
    """Return the cluster of that number, without fields that the release does not have."""
    dice = random.Random(f"{seed}/{number}")  # no secret
    return _Maker(dice, f"s{number}", release).make()


class _Maker:
    def __init__(self, dice: random.Random, name: str, release: Release) -> None:
        self._dice = dice
        self._release = release
        self._name = name
        self._spaces = (f"{name}-red", f"{name}-blue")
        self._claims: list[tuple[str, str]] = []

    def make(self) -> Scenario:
        made = Scenario()
        for space, team in zip(self._spaces, ("red", "blue"), strict=True):
            made.namespaces.append({"metadata": {"name": space, "labels": {"team": team}}})
        for index in range(NODES):
            made.nodes.append(self._node(index))
            if self._chance(0.5):
                made.csi_nodes.append(self._csi_node(index))
        made.classes += [self._class("now", waits=False), self._class("later", waits=True)]
        for index in range(8):
            self._volume(made, index)
        made.classes.append(self._class("hand", waits=True, provisioner=_NOBODY))
        made.classes.append(self._class("space", waits=True, provisioner=_MEASURED))
        spec = {"storageCapacity": True, "attachRequired": False}
        made.csi_drivers.append({"metadata": {"name": _MEASURED}, "spec": spec})
        for index in range(4):
            made.capacities.append(self._capacity(index))
        for index in range(8):
            made.claims.append(self._waiting_claim(index))
        for index in range(7):
            self._ready_volume(made, index)
        for index in range(14):
            pod = self._pod(f"running-{index}", share=0.25)
            pod["spec"]["nodeName"] = self._node_name(self._dice.randrange(NODES))
            (made.leaving if self._chance(0.1) else made.running).append(pod)
        for index in range(CANDIDATES):
            made.candidates.append(self._pod(f"candidate-{index}", share=0.3))
        return made

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _some(self, choices: tuple[str, ...], *, least: int = 0) -> list[str]:
        return self._dice.sample(choices, self._dice.randint(least, len(choices)))

    def _node_name(self, index: int) -> str:
        return f"{self._name}-n{index}"

    def _node(self, index: int) -> Json:
        dice, name = self._dice, self._node_name(index)
        labels = {"kubernetes.io/hostname": name, "size": str(dice.randint(1, 9))}
        if self._chance(0.8):
            labels[_ZONE] = dice.choice(("x", "y"))
        if self._chance(0.8):
            labels["rack"] = dice.choice(("r1", "r2", "r3"))
        if self._chance(0.5):
            labels["disk"] = dice.choice(("ssd", "hdd"))
        taints = [
            {"key": key, "value": dice.choice(("a", "b")), "effect": effect}
            for key, effect in (
                ("gpu", "NoSchedule"),
                ("old", "NoExecute"),
                ("far", "PreferNoSchedule"),
            )
            if self._chance(0.15)
        ]
        amounts = {
            "cpu": str(dice.randint(2, 6)),
            "memory": f"{dice.randint(2, 8)}Gi",
            "pods": str(dice.choice((2, 5, 110))),
            "ephemeral-storage": "10Gi",
        }
        if self._chance(0.3):
            amounts["example.com/gpu"] = str(dice.randint(1, 2))
        spec: Json = {"taints": taints}
        if self._chance(0.1):
            spec["unschedulable"] = True
        status: Json = {"capacity": amounts, "allocatable": amounts}
        if self._chance(0.6):
            status["declaredFeatures"] = ["ExtendWebSocketsToKubelet", *self._some((_RESTART,))]
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def _csi_node(self, index: int) -> Json:
        drivers = []
        for name in (_DRIVER, *self._some(_TAKEN_OVER)):
            driver: Json = {"name": name, "nodeID": "n", "topologyKeys": None}
            if self._chance(0.7):
                driver["allocatable"] = {"count": self._dice.randint(1, 3)}
            drivers.append(driver)
        return {"metadata": {"name": self._node_name(index)}, "spec": {"drivers": drivers}}

    def _class(self, mode: str, *, waits: bool, provisioner: str = _DRIVER) -> Json:
        made: Json = {
            "metadata": {"name": f"{self._name}-{mode}"},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        }
        if waits and self._chance(0.5):
            made["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": _ZONE, "values": ["x"]}]}
            ]
        return made

    def _capacity(self, index: int) -> Json:
        """Return what the driver can provision on some nodes, mostly of class `space`."""
        dice, sizes = self._dice, ("maximumVolumeSize", "capacity")
        made: Json = {
            "metadata": {"name": f"{self._name}-{index}", "namespace": self._spaces[0]},
            "storageClassName": f"{self._name}-{dice.choice(('space', 'space', 'later'))}",
            **{name: f"{dice.randint(0, 3)}Gi" for name in self._some(sizes)},
        }
        if self._chance(0.9):
            expressions = [self._node_expression() for _ in range(dice.choice((0, 1, 1, 2)))]
            usual = [it for it in expressions if it["operator"] not in ("Gt", "Lt")]
            made["nodeTopology"] = {"matchExpressions": usual}
        return made

    def _volume(self, made: Scenario, index: int) -> None:
        """Create a claim, and mostly the volume that it is bound to."""
        dice, space = self._dice, self._dice.choice(self._spaces)
        name = f"data-{index}"
        self._claims.append((space, name))
        mode = dice.choice(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
        kind = dice.choice(("bound", "bound", "bound", "unbound", "waiting", "selected"))
        mode_of_class = "later" if kind in ("waiting", "selected") else "now"
        annotations: dict[str, str] = {}
        spec: Json = {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": f"{self._name}-{mode_of_class}",
        }
        if kind == "selected":
            node = self._node_name(dice.randrange(NODES))
            annotations["volume.kubernetes.io/selected-node"] = node
        if kind == "bound":
            annotations["pv.kubernetes.io/bind-completed"] = "yes"
            spec["volumeName"] = f"{self._name}-{name}"
            made.volumes.append(self._persistent_volume(spec, space, name))
        metadata = {"name": name, "namespace": space, "annotations": annotations}
        made.claims.append({"metadata": metadata, "spec": spec})

    def _persistent_volume(self, claim: Json, space: str, name: str) -> Json:
        spec: Json = {
            "capacity": {"storage": "1Gi"},
            "accessModes": claim["accessModes"],
            "storageClassName": claim["storageClassName"],
            "claimRef": {"namespace": space, "name": name},
            "csi": {"driver": _DRIVER, "volumeHandle": f"{self._name}-{name}"},
        }
        labels = {}
        if self._chance(0.3):
            labels[_ZONE] = self._dice.choice(("x", "y", "x__y"))
        if self._chance(0.4):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._volume_term()]}}
        return {"metadata": {"name": f"{self._name}-{name}", "labels": labels}, "spec": spec}

    def _volume_term(self) -> Json:
        term: Json = {"matchExpressions": [self._node_expression()]}
        if self._chance(0.3):
            if self._chance(0.5):
                term = {}
            names = [self._node_name(self._dice.randrange(NODES))]
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": names}]
        return term

    def _waiting_claim(self, index: int) -> Json:
        """Return a claim that an existing volume may match."""
        dice, space, name = self._dice, self._dice.choice(self._spaces), f"waits-{index}"
        self._claims.append((space, name))
        spec: Json = {
            "accessModes": self._some(_MODES, least=1)[:2],
            "resources": {"requests": {"storage": f"{dice.randint(1, 3)}Gi"}},
            "storageClassName": f"{self._name}-{dice.choice(_CLASSES)}",
            "volumeMode": dice.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
        }
        if self._chance(0.3):
            tiers = self._some(_TIERS, least=1)
            entry = {"key": "tier", "operator": dice.choice(("In", "NotIn")), "values": tiers}
            spec["selector"] = {"matchExpressions": [entry]}
        return {"metadata": {"name": name, "namespace": space}, "spec": spec}

    def _ready_volume(self, made: Scenario, index: int) -> None:
        """Create a volume without a claim, or for one of the pending claims."""
        dice, name = self._dice, f"{self._name}-ready-{index}"
        spec: Json = {
            "capacity": {"storage": f"{dice.randint(1, 4)}Gi"},
            "accessModes": self._some(_MODES, least=2),
            "storageClassName": f"{self._name}-{dice.choice(('hand', 'hand', 'later'))}",
            "volumeMode": dice.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
            "hostPath": {"path": "/data"},
        }
        if self._chance(0.8):
            names = [self._node_name(at) for at in dice.sample(range(NODES), dice.randint(1, 3))]
            host = {"key": _HOST, "operator": "In", "values": names}
            term = dice.choice(({"matchExpressions": [host]}, self._volume_term()))
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if self._chance(0.2):
            space, claim = dice.choice(self._claims[-8:])
            spec["claimRef"] = {"namespace": space, "name": claim}
        metadata = {"name": name, "labels": {"tier": dice.choice(_TIERS)}}
        phase = "Available" if self._chance(0.9) else "Pending"
        made.volumes.append({"metadata": metadata, "spec": spec, "status": {"phase": phase}})
        if self._chance(0.1):
            made.withdrawn.append(name)

    def _pod(self, name: str, *, share: float) -> Json:
        space = self._dice.choice(self._spaces)
        labels = {"rev": self._dice.choice(("1", "2"))}
        if self._chance(0.8):
            labels["app"] = self._dice.choice(_APPS)
        spec: Json = {"containers": [self._container("main", share)]}
        self._placing(spec, share)
        self._pod_affinity(spec, share)
        self._extra(spec, space, share)
        metadata = {"name": name, "namespace": space, "labels": labels}
        return {"metadata": metadata, "spec": spec}

    def _container(self, name: str, share: float) -> Json:
        dice = self._dice
        requests = {}
        if self._chance(0.7):
            requests["cpu"] = dice.choice(("100m", "1", "1500m"))
        if self._chance(0.5):
            requests["memory"] = dice.choice(("256Mi", "1Gi", "2Gi"))
        if self._chance(share / 3):
            requests["ephemeral-storage"] = "4Gi"
        made: Json = {"name": name, "image": "registry.example/none:1"}
        made["resources"] = {"requests": requests}
        if self._chance(share / 3):
            made["resources"] = {
                "requests": requests | {"example.com/gpu": "1"},
                "limits": {"example.com/gpu": "1"},
            }
        if self._chance(share / 4) and self._release >= (1, 36):
            exits = {"operator": "In", "values": [42]}
            made["restartPolicy"] = "Never"
            made["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": exits}]
        if self._chance(share):
            port: Json = {"containerPort": 80, "hostPort": dice.choice((80, 81))}
            if self._chance(0.4):
                port["hostIP"] = dice.choice(("10.0.0.1", "10.0.0.2"))
            if self._chance(0.3):
                port["protocol"] = "UDP"
            made["ports"] = [port]
        return made

    def _placing(self, spec: Json, share: float) -> None:
        dice = self._dice
        if self._chance(share / 2):
            spec["nodeSelector"] = {_ZONE: dice.choice(("x", "y"))}
        if self._chance(share):
            terms: list[Json] = [
                {"matchExpressions": [self._node_expression() for _ in range(dice.randint(1, 2))]}
                for _ in range(dice.randint(1, 2))
            ]
            if self._chance(0.3):
                names = [self._node_name(dice.randrange(NODES))]
                operator = dice.choice(("In", "NotIn"))
                entry = {"key": "metadata.name", "operator": operator, "values": names}
                terms[0]["matchFields"] = [entry]
            required = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
            spec.setdefault("affinity", {})["nodeAffinity"] = required
        spec["tolerations"] = [
            toleration
            for toleration in (
                {"key": "gpu", "operator": "Exists"},
                {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
                {"key": "old", "operator": "Equal", "value": "b"},
                {"operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            )
            if self._chance(share / 2)
        ]

    def _node_expression(self) -> Json:
        dice = self._dice
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "size", "operator": operator, "values": [str(dice.randint(2, 8))]}
        key, values = dice.choice(
            ((_ZONE, ("x", "y")), ("rack", ("r1", "r2", "r3")), ("disk", ("ssd", "hdd")))
        )
        made: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            made["values"] = self._some(values, least=1)
        return made

    def _pod_affinity(self, spec: Json, share: float) -> None:
        for kind, chance in (("podAffinity", share / 2), ("podAntiAffinity", share)):
            if self._chance(chance):
                terms = [self._pod_term() for _ in range(self._dice.randint(1, 2))]
                spec.setdefault("affinity", {})[kind] = {_REQUIRED: terms}
        if self._chance(share):
            keys = self._some(_KEYS, least=1)[:2]
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]

    def _pod_term(self) -> Json:
        dice = self._dice
        term: Json = {"topologyKey": dice.choice(_KEYS), "labelSelector": self._selector()}
        if self._chance(0.2):
            term["namespaces"] = self._some(self._spaces, least=1)
        if self._chance(0.3):
            team = {"matchLabels": {"team": dice.choice(("red", "blue"))}}
            term["namespaceSelector"] = dice.choice(({}, team))
        if self._chance(0.2):
            term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
        return term

    def _selector(self) -> Json:
        dice = self._dice
        apps = self._some(_APPS, least=1)
        return dice.choice(
            (
                {"matchLabels": {"app": apps[0]}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": apps}]},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            )
        )

    def _spread(self, key: str) -> Json:
        dice = self._dice
        made: Json = {
            "topologyKey": key,
            "maxSkew": dice.randint(1, 3),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {} if self._chance(0.1) else self._selector(),
        }
        if self._chance(0.2):
            made["minDomains"] = dice.randint(1, 4)
        if self._chance(0.3):
            made["nodeAffinityPolicy"] = dice.choice(("Honor", "Ignore"))
        if self._chance(0.3):
            made["nodeTaintsPolicy"] = dice.choice(("Honor", "Ignore"))
        if self._chance(0.2):
            made["matchLabelKeys"] = ["rev"]
        return made

    def _extra(self, spec: Json, space: str, share: float) -> None:
        if self._chance(share / 2):
            starting = self._container("init", share)
            if self._chance(0.5):
                starting["restartPolicy"] = "Always"
            spec["initContainers"] = [starting]
        if self._chance(share / 3):
            spec["resources"] = {"requests": {"cpu": "3"}}
        here = tuple(name for of, name in self._claims if of == space)
        volumes: list[Json] = []
        if here and self._chance(share):
            volumes += [
                {"persistentVolumeClaim": {"claimName": name}}
                for name in self._some(here, least=1)[:3]
            ]
        if self._chance(share):
            volumes += [self._inline_volume() for _ in range(self._dice.randint(1, 3))]
        spec["volumes"] = [{"name": f"v{at}", **volume} for at, volume in enumerate(volumes)]

    def _inline_volume(self) -> Json:
        """Return a volume without a claim; some are the same disk in another form."""
        dice = self._dice
        read_only = {"readOnly": self._chance(0.5)}
        name = dice.choice(("a", "b", "c"))
        monitors = self._some(_MONITORS, least=1)
        pool = {"pool": dice.choice(("rbd", "fast"))} if self._chance(0.5) else {}
        portal = {"targetPortal": "10.1.0.9", "lun": dice.randint(0, 1)}
        iqn = f"iqn.2026-01.example:{name}"
        managed = f"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/{name}"
        form = dice.choice(("vol-{}", "aws://x/vol-{}", "aws:///vol-{}"))
        made: Json = dice.choice(
            (
                {"gcePersistentDisk": {"pdName": name, "partition": dice.randint(0, 1)}},
                {"awsElasticBlockStore": {"volumeID": form.format(name)}},
                {"iscsi": {"iqn": iqn, **portal}},
                {"rbd": {"image": name, "monitors": monitors, **pool}},
                {"azureDisk": {"diskName": name, "diskURI": managed, "kind": "Managed"}},
                {"flexVolume": {"driver": "example.com/old"}},
            )
        )
        return {kind: {**source, **read_only} for kind, source in made.items()}
