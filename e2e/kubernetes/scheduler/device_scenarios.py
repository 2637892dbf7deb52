"""Random small clusters with devices, and pods with claims, the same for the same seed.

Muster's intended differences are excluded, and covered by `test_device_faults`: pools with counters
are complete and have names that no other driver's pool has, shared devices without a capacity use
no counters, and constraints on distinct attributes are for requests of one device.
"""

import random
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

NODES: Final = 10
CANDIDATES: Final = 16
PLACED: Final = 50
DRIVERS: Final = ("fpga.example.com", "gpu.example.com", "nic.example.com")
SHARED_DOMAIN: Final = "numa.example.com"
STALE_ELSEWHERE: Final = "wandering"
"""The name of pools with a newer generation on another node."""

_ZONE: Final = "topology.kubernetes.io/zone"
_MODELS: Final = ("a", "b", "c")
_TAINTS: Final = (("worn", "yes", "NoSchedule"), ("hot", "", "NoExecute"), ("old", "", "None"))


@dataclass(slots=True)
class DeviceScenario:
    """All objects of one cluster.

    `claims` may have a status, which is written separately.

    `candidates` are decided and not placed; `placed` are placed one after the other. Each has the
    claims that its pod names and that are its own; others are among `claims`.
    """

    namespace: str
    nodes: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    slices: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    candidates: list[Json] = field(default_factory=list)
    placed: list[Json] = field(default_factory=list)


def device_scenario(seed: int, number: int) -> DeviceScenario:
    """Return the cluster of that number."""
    return _Maker(random.Random(f"{seed}/{number}"), f"d{number}").make()  # no secret


class _Maker:
    def __init__(self, dice: random.Random, name: str) -> None:
        self._dice = dice
        self._name = name
        self._drivers = sorted(dice.sample(DRIVERS, dice.randint(1, 3)))
        self._made = DeviceScenario(name)
        self._taken: list[str] = []

    def make(self) -> DeviceScenario:
        made, dice = self._made, self._dice
        for index in range(NODES):
            made.nodes.append(self._node(index))
            for driver in self._drivers:
                if self._chance(0.85):
                    self._local_pool(driver, index)
        for number in range(dice.randint(0, 3)):
            self._wide_pool(number)
        if self._chance(0.3):
            self._pool_stale_elsewhere()
        made.classes += self._classes()
        self._allocated_claims()
        made.candidates += [self._pod(f"candidate-{index}") for index in range(CANDIDATES)]
        made.placed += [self._pod(f"placed-{index}", place=True) for index in range(PLACED)]
        return made

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _node_name(self, index: int) -> str:
        return f"{self._name}-n{index}"

    def _node(self, index: int) -> Json:
        name = self._node_name(index)
        labels = {"kubernetes.io/hostname": name, _ZONE: self._dice.choice(("x", "y"))}
        if self._chance(0.5):
            labels["disk"] = "ssd"
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        return {"metadata": {"name": name, "labels": labels}, "status": status}

    # Slices

    def _slice(self, driver: str, pool: Json, scope: Json, **content: Any) -> None:
        number = len(self._made.slices)
        # Slices are read in the order of their names, whenever they were created.
        name = f"{self._name}-{self._dice.randint(10, 99)}-{number}"
        spec = {"driver": driver, "pool": pool, **scope, **content}
        self._made.slices.append({"metadata": {"name": name}, "spec": spec})

    def _local_pool(self, driver: str, index: int) -> None:
        node = self._node_name(index)
        partitioned = self._chance(0.2)
        pool = f"{node}-{driver[:3]}" if partitioned or self._chance(0.5) else node
        self._pool(driver, pool, {"nodeName": node}, partitioned=partitioned)

    def _wide_pool(self, number: int) -> None:
        """Create a pool that several nodes can access."""
        driver, pool = self._dice.choice(self._drivers), f"{self._name}-net-{number}"
        term = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["x"]}]}
        zone = {"nodeSelector": {"nodeSelectorTerms": [term]}}
        scope = self._dice.choice((zone, {"allNodes": True}, {"perDeviceNodeSelection": True}))
        self._pool(driver, pool, scope, partitioned=self._chance(0.3))

    def _pool(self, driver: str, pool: str, scope: Json, *, partitioned: bool) -> None:
        """Create a pool in one to three slices; some lack one, or have stale ones."""
        dice, generation = self._dice, self._dice.randint(1, 3)
        devices = [self._device(driver, at, scope) for at in range(dice.randint(1, 6))]
        sets: list[Json] = self._counters(devices) if partitioned else []
        if sets and "allNodes" in scope and self._chance(0.1):
            sets[0]["name"] = "other"  # different from the devices'
        parts = dice.randint(1, min(3, len(devices)))
        chunks = [devices[part::parts] for part in range(parts)]
        if len(devices) > 1 and self._chance(0.05):
            devices[-1]["name"] = devices[0]["name"]
            chunks = [devices[:-1], devices[-1:]]
        count = len(chunks) + (1 if sets else self._chance(0.05))
        full = {"name": pool, "generation": generation, "resourceSliceCount": count}
        for chunk in chunks:
            self._slice(driver, full, scope, devices=chunk)
        if sets:
            self._slice(driver, full, scope, sharedCounters=sets)
        if generation > 1 and self._chance(0.15):
            stale = {**full, "generation": generation - 1, "resourceSliceCount": 1}
            self._slice(driver, stale, scope, devices=[self._device(driver, 9, scope)])

    def _pool_stale_elsewhere(self) -> None:
        """Create a pool whose newest generation is only on another node."""
        driver = self._dice.choice(self._drivers)
        for index, generation in ((0, 1), (1, 2)):
            pool = {"name": f"{self._name}-{STALE_ELSEWHERE}", "generation": generation}
            pool["resourceSliceCount"] = 1 if self._chance(0.7) else 2
            scope = {"nodeName": self._node_name(index)}
            self._slice(driver, pool, scope, devices=[self._device(driver, index, scope)])

    def _counters(self, devices: list[Json]) -> list[Json]:
        """Let the devices consume counters, possibly more than there are."""
        dice = self._dice
        names = ("memory", "slots")[: dice.randint(1, 2)]
        sets = [
            {
                "name": f"set-{at}",
                "counters": {n: {"value": str(dice.randint(2, 8))} for n in names},
            }
            for at in range(dice.randint(1, 2))
        ]
        for device in devices:
            if "allowMultipleAllocations" in device and "capacity" not in device:
                continue
            chosen = dice.sample(sets, dice.randint(0, len(sets)))
            device["consumesCounters"] = [
                {
                    "counterSet": one["name"],
                    "counters": {n: {"value": str(dice.randint(1, 4))} for n in one["counters"]},
                }
                for one in chosen
            ]
        return sets

    def _device(self, driver: str, at: int, scope: Json) -> Json:
        dice = self._dice
        attributes: Json = {
            "model": {"string": dice.choice(_MODELS)},
            "rail": {"int": dice.randint(0, 1)},
            "healthy": {"bool": self._chance(0.8)},
            f"{SHARED_DOMAIN}/node": {"int": dice.randint(0, 1)},
        }
        if self._chance(0.02):
            del attributes[dice.choice(sorted(attributes))]
        if self._chance(0.3):
            attributes["firmware"] = {"version": f"{dice.randint(1, 2)}.{dice.randint(0, 2)}.0"}
        device: Json = {"name": f"dev-{at}", "attributes": attributes}
        if self._chance(0.5):
            device["capacity"] = {"memory": {"value": f"{dice.choice((10, 20, 40))}Gi"}}
        if self._chance(0.15):
            device["allowMultipleAllocations"] = True
            if self._chance(0.8):
                device["capacity"] = {"memory": self._policed(), "lanes": {"value": "4"}}
        if self._chance(0.12):
            key, value, effect = dice.choice(_TAINTS)
            device["taints"] = [{"key": key, "value": value, "effect": effect}]
        if self._chance(0.05):
            device["bindingConditions"] = ["example.com/attached"]
            device["bindingFailureConditions"] = ["example.com/failed"]
        if self._chance(0.05):
            device["bindsToNode"] = True
        if "perDeviceNodeSelection" in scope:
            device |= self._own_scope()
        return device

    def _own_scope(self) -> Json:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        scopes: tuple[Json, ...] = (
            {"nodeName": self._node_name(self._dice.randrange(NODES))},
            {"nodeSelector": {"nodeSelectorTerms": [term]}},
            {"allNodes": True},
        )
        return self._dice.choice(scopes)

    def _policed(self) -> Json:
        """Return a capacity of 40Gi with a random request policy."""
        policies: tuple[Json, ...] = (
            {},
            {"requestPolicy": {"default": "8Gi"}},
            {"requestPolicy": {"default": "8Gi", "validValues": ["4Gi", "8Gi", "16Gi"]}},
            {"requestPolicy": {"default": "4Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}},
            {"requestPolicy": {"default": "4Gi", "validRange": {"min": "4Gi", "max": "16Gi"}}},
        )
        return {"value": "40Gi", **self._dice.choice(policies)}

    # Classes and claims

    def _class_name(self, of: str) -> str:
        return f"{self._name}-{of}"

    def _classes(self) -> list[Json]:
        made = {of: [f'device.driver == "{of}"'] for of in self._drivers}
        made["any"] = []
        made["good"] = [_attribute(self._drivers, "healthy", "== true")]
        # If an attribute is missing, this one results in an error.
        made["rail"] = [
            f'device.driver == "{self._drivers[0]}"',
            f'device.attributes["{self._drivers[0]}"].rail >= 0',
        ]
        classes = []
        for of, expressions in made.items():
            spec: Json = {"selectors": [{"cel": {"expression": text}} for text in expressions]}
            if self._chance(0.4):
                spec["config"] = [_opaque(self._drivers[0], of) for _ in range(2)]
            classes.append({"metadata": {"name": self._class_name(of)}, "spec": spec})
        return classes

    def _any_class(self) -> str:
        if self._chance(0.01):
            return self._class_name("missing")
        some = (*self._drivers, *self._drivers, "any", "good", "good", "rail")
        return self._class_name(self._dice.choice(some))

    def _spec(self, most: int) -> Json:
        count = min(most, self._dice.choice((1, 1, 2, 3)))
        requests = [self._request(f"req-{at}") for at in range(count)]
        devices: Json = {"requests": requests}
        if self._chance(0.35):
            devices["constraints"] = [self._constraint(requests)]
        if self._chance(0.3):
            named = [[], [requests[0]["name"]], [one["name"] for one in requests]]
            devices["config"] = [
                {"requests": self._dice.choice(named), **_opaque(self._drivers[0], f"own-{at}")}
                for at in range(self._dice.randint(1, 2))
            ]
        return {"devices": devices}

    def _request(self, name: str) -> Json:
        if self._chance(0.25):
            options = [
                {"name": f"sub-{at}", **self._exactly()} for at in range(self._dice.randint(2, 3))
            ]
            return {"name": name, "firstAvailable": options}
        exactly = self._exactly()
        if self._chance(0.08):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> Json:
        dice = self._dice
        wanted: Json = {"deviceClassName": self._any_class()}
        if self._chance(0.12):
            wanted["allocationMode"] = "All"
        else:
            wanted["count"] = dice.choice((1, 1, 1, 2, 2, 3))
        if self._chance(0.4):
            expression = dice.choice(
                (
                    _attribute(self._drivers, "model", f'== "{dice.choice(_MODELS)}"'),
                    _attribute(self._drivers, "rail", "== 0"),
                    _attribute(self._drivers, "firmware", '.isGreaterThan(semver("1.1.0"))'),
                    'device.capacity["gpu.example.com"].?memory.hasValue()',
                    "device.allowMultipleAllocations == false",
                    f'device.attributes["{SHARED_DOMAIN}"].node < 2',
                )
            )
            wanted["selectors"] = [{"cel": {"expression": expression}}]
        if self._chance(0.3):
            some: tuple[Json, ...] = (
                {"operator": "Exists"},
                {"key": "worn", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
                {"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
                {"key": "worn", "value": "no"},
            )
            wanted["tolerations"] = dice.sample(some, dice.randint(1, 2))
        if self._chance(0.12):
            amount = dice.choice(("1Gi", "3Gi", "8Gi", "20Gi", "41Gi"))
            wanted["capacity"] = {"requests": {"memory": amount}}
        return wanted

    def _constraint(self, requests: list[Json]) -> Json:
        attributes = ("model", "rail", "healthy", "firmware")
        name = f"{self._dice.choice(self._drivers)}/{self._dice.choice(attributes)}"
        if self._chance(0.4):
            name = f"{SHARED_DOMAIN}/node"
        names = [one["name"] for one in requests]
        chosen = [] if self._chance(0.5) else self._dice.sample(names, 1)
        named = {"requests": chosen} if chosen else {}
        single = all(_single(one) for one in requests)
        if single and self._chance(0.5):
            return {"distinctAttribute": name, **named}
        return {"matchAttribute": name, **named}

    def _allocated_claims(self) -> None:
        """Create claims that others use; some of their devices are deleted, some are shared."""
        dice = self._dice
        places = [
            (each["spec"], device)
            for each in self._made.slices
            for device in each["spec"].get("devices", ())
        ]
        used: set[tuple[str, str, str]] = set()
        for number in range(dice.randint(8, 20)):
            spec, device = dice.choice(places)
            key = (spec["driver"], spec["pool"]["name"], device["name"])
            if key in used:
                continue
            used.add(key)
            name = f"taken-{number}"
            self._made.claims.append(self._allocated(name, spec, device))
            self._taken.append(name)

    def _allocated(self, name: str, spec: Json, device: Json) -> Json:
        exactly: Json = {"deviceClassName": self._class_name("any")}
        result: Json = {
            "request": "req-0",
            "driver": spec["driver"],
            "pool": spec["pool"]["name"],
            "device": device["name"] if not self._chance(0.1) else "gone",
        }
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-4000-8000-{self._dice.randrange(10**11):012}"
            if "capacity" in device:
                result["consumedCapacity"] = {"memory": "8Gi", "lanes": "1"}
        elif self._chance(0.15):
            exactly["adminAccess"] = result["adminAccess"] = True
        nodes = {"nodeSelector": _only(spec["nodeName"])} if "nodeName" in spec else {}
        uid = f"00000000-0000-4000-9000-{self._dice.randrange(10**11):012}"
        status = {
            "allocation": {
                "devices": {"results": [result]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
                **nodes,
            },
            # An idle claim would be deallocated for an unschedulable pod.
            "reservedFor": [{"resource": "pods", "name": "somebody", "uid": uid}],
        }
        requests = [{"name": "req-0", "exactly": exactly}]
        spec = {"devices": {"requests": requests}}
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    # Pods

    def _pod(self, name: str, *, place: bool = False) -> Json:
        names: list[str] = []
        # kube-scheduler cannot try more requests in its 10 s for a node.
        claims = self._dice.choice((1, 1, 1, 2, 3))
        most = {1: 3, 2: 2, 3: 1}[claims]
        for at in range(claims):
            if self._taken and self._chance(0.08):
                names.append(self._dice.choice(self._taken))
                continue
            names.append(f"{name}-{at}")
            self._made.claims.append({"metadata": {"name": names[-1]}, "spec": self._spec(most)})
        unique = sorted(set(names), key=names.index)
        spec: Json = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [
                {"name": f"entry-{at}", "resourceClaimName": claim}
                for at, claim in enumerate(unique)
            ],
        }
        if not place and self._chance(0.2):
            spec["nodeSelector"] = {"disk": "ssd"}
        return {"metadata": {"name": name, "namespace": self._name}, "spec": spec}


def _attribute(drivers: list[str], name: str, test: str) -> str:
    """Return an expression for devices of these drivers with the attribute that pass the test."""
    tests = (
        f'(device.driver == "{of}" && "{name}" in device.attributes["{of}"]'
        f' && device.attributes["{of}"].{name}{"" if test[0] == "." else " "}{test})'
        for of in drivers
    )
    return " || ".join(tests)


def _single(request: Json) -> bool:
    """Return True if the request is for one device."""
    options = request.get("firstAvailable") or [request["exactly"]]
    return all(one.get("count") == 1 for one in options)


def _opaque(driver: str, text: str) -> Json:
    return {"opaque": {"driver": driver, "parameters": {"kind": "Config", "of": text}}}


def _only(node: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}
