"""Random small clusters whose nodes offer extended resources, have devices for them, or both.

Pods with an additional own claim are excluded: kube-scheduler never binds such a pod to a node that
offers the resource. So are two classes for one resource, of which it may lose one.
"""

import random
from typing import Any, Final

from e2e.kubernetes.scheduler.device_scenarios import DeviceScenario

Json = dict[str, Any]

NODES: Final = 10
CANDIDATES: Final = 18
PLACED: Final = 24
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"

_ALWAYS: Final = {"restartPolicy": "Always"}


def extended_scenario(seed: int, number: int) -> DeviceScenario:
    """Return the cluster of that number."""
    return _Maker(random.Random(f"extended/{seed}/{number}"), f"x{number}").make()  # no secret


class _Maker:
    def __init__(self, dice: random.Random, name: str) -> None:
        self._dice = dice
        self._name = name
        self._drivers = [f"{kind}.{name}.example.com" for kind in ("fpga", "gpu", "nic")]
        # Two resources that classes name, one by a class's own name, and one without a class.
        named = [f"{name}.example.com/{kind}" for kind in ("fpga", "gpu")]
        self._named = dict(zip(self._drivers, named, strict=False))
        implicit = f"{IMPLICIT}{name}-nic"
        self._resources = [*named, implicit, f"{IMPLICIT}{name}-gpu", f"{name}.example.com/none"]
        self._made = DeviceScenario(name)

    def make(self) -> DeviceScenario:
        made, dice = self._made, self._dice
        for driver in self._drivers:
            made.classes.append(self._class(driver))
        for index in range(NODES):
            made.nodes.append(self._node(index))
            for driver in self._drivers:
                if dice.random() < 0.6:
                    made.slices.append(self._slice(driver, index))
        made.candidates += [self._pod(f"candidate-{at}") for at in range(CANDIDATES)]
        made.placed += [self._pod(f"placed-{at}") for at in range(PLACED)]
        return made

    def _class(self, driver: str) -> Json:
        kind = driver.split(".", maxsplit=1)[0]
        selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
        spec: Json = {"selectors": selectors}
        if driver in self._named:
            spec["extendedResourceName"] = self._named[driver]
        return {"metadata": {"name": f"{self._name}-{kind}"}, "spec": spec}

    def _node(self, index: int) -> Json:
        dice = self._dice
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        for resource in self._resources:
            if not resource.startswith(IMPLICIT) and dice.random() < 0.3:
                amounts[resource] = str(dice.choice((0, 1, 2, 4)))
        status = {"capacity": amounts, "allocatable": amounts}
        return {"metadata": {"name": f"{self._name}-n{index}"}, "status": status}

    def _slice(self, driver: str, index: int) -> Json:
        node = f"{self._name}-n{index}"
        count = self._dice.choice((1, 2, 3, 5))
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"dev-{at}"} for at in range(count)],
        }
        return {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}

    def _pod(self, name: str) -> Json:
        dice = self._dice
        wanted = dice.sample(self._resources, dice.choice((1, 1, 1, 2, 2)))
        main = [self._container(f"c{at}", wanted) for at in range(dice.choice((1, 1, 2)))]
        first = [self._container(f"i{at}", wanted) for at in range(dice.choice((0, 0, 1, 2)))]
        first = [{**each, **(_ALWAYS if dice.random() < 0.3 else {})} for each in first]
        spec = {"containers": main, "initContainers": first}
        return {"metadata": {"name": name, "namespace": self._name}, "spec": spec}

    def _container(self, name: str, wanted: list[str]) -> Json:
        dice = self._dice
        counts = {each: dice.choice((0, 1, 1, 2, 3)) for each in wanted if dice.random() < 0.8}
        amounts = {resource: str(count) for resource, count in counts.items()}
        if dice.random() < 0.5:
            amounts["cpu"] = "100m"
        return {
            "name": name,
            "image": "i",
            "resources": {"requests": amounts, "limits": amounts},
        }
