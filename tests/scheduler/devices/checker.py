"""Checks allocations without knowledge of the search.

Whichever scheduler wrote them: each device exists and can be used on the pod's node, the selectors
match it, the constraints hold, no device is allocated twice, and counters and capacities suffice.
The inputs are the API server's objects, as values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from scheduler.core.values.device_asks import DeviceConstraint, DeviceOption, DeviceToleration
from scheduler.core.values.devices import (
    AllocatedDevice,
    Attribute,
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceInfo,
    DeviceKey,
    DeviceTaint,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import NodeTerm

SelectorEvaluator = Callable[[str, str, DeviceInfo], bool | str]


class Checker:
    """Independent checker of allocations.

    `current` are the slices of each pool's newest generation, as a node may use them.
    """

    def __init__(
        self,
        slices: Iterable[SliceInfo],
        classes: Mapping[str, DeviceClassInfo],
        evaluate: SelectorEvaluator,
        labels: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Create a checker; `labels` are those of each node, by name."""
        self.classes = classes
        self.evaluate = evaluate
        self.labels = labels
        self.devices: dict[DeviceKey, tuple[SliceInfo, DeviceInfo]] = {}
        self.counters: Counter[tuple[str, str, str, str]] = Counter()
        all_slices = list(slices)
        newest: dict[tuple[str, str], int] = {}
        for each in all_slices:
            newest[each.pool_key] = max(newest.get(each.pool_key, 0), each.generation)
        for each in all_slices:
            if each.generation < newest[each.pool_key]:
                continue
            for device in each.devices:
                self.devices[*each.pool_key, device.name] = (each, device)
            for name, amounts in each.counters:
                for counter, amount in amounts:
                    self.counters[*each.pool_key, name, counter] += amount

    def complaints(
        self, claims: Sequence[DeviceClaimInfo], nodes: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """Return the violations; `nodes` are those of the pods that use each claim, by UID."""
        found: list[str] = []
        for claim in claims:
            if claim.allocation is not None:
                about = [*self._about(claim), *self._about_nodes(claim, nodes.get(claim.uid, ()))]
                found += [f"{claim.key[0]}/{claim.key[1]}: {text}" for text in about]
        return [*found, *self._about_all(claims)]

    def _about(self, claim: DeviceClaimInfo) -> Iterator[str]:
        devices = claim.allocation.devices if claim.allocation else ()
        missing = [each.key for each in devices if each.key not in self.devices]
        if missing:
            yield f"{missing} do not exist"
            return
        if len(devices) > 32:
            yield f"{len(devices)} results"
        keys = [each.key for each in devices if each.share is None]
        if len(keys) != len(set(keys)):
            yield "a device twice in one claim"
        yield from self._about_requests(claim, devices)
        for constraint in claim.ask.constraints:
            if not self._holds(constraint, devices):
                yield f"{constraint} does not hold"

    def _about_requests(
        self, claim: DeviceClaimInfo, devices: Iterable[AllocatedDevice]
    ) -> Iterator[str]:
        taken: dict[str, list[AllocatedDevice]] = {}
        for each in devices:
            taken.setdefault(each.request, []).append(each)
        for request in claim.ask.requests:
            used = [option for option in request.options if option.name in taken]
            if len(used) != 1:
                yield f"request {request.name} met by {len(used)} options"
                continue
            option, of_option = used[0], taken.pop(used[0].name)
            if not option.every and len(of_option) != option.count:
                yield f"{len(of_option)} devices for {option.name}"
            for each in of_option:
                yield from self._fits(each, option)
        if taken:
            yield f"devices for unknown requests {sorted(taken)}"

    def _about_nodes(self, claim: DeviceClaimInfo, nodes: Iterable[str]) -> Iterator[str]:
        allocation = claim.allocation
        assert allocation is not None
        for node in nodes:
            if not self._in_terms(allocation.nodes, node):
                yield f"not for {node}"
            for each in allocation.devices:
                if each.key in self.devices and not self._reaches(each.key, node):
                    yield f"{each.key} cannot be used on {node}"

    def _fits(self, each: AllocatedDevice, option: DeviceOption) -> Iterator[str]:
        _, device = self.devices[each.key]
        if each.admin != option.admin:
            yield f"{each.key} has adminAccess {each.admin}"
        for expression in (*self.classes[option.device_class].selectors, *option.selectors):
            if self.evaluate(expression, each.key[0], device) is not True:
                yield f"{each.key} is not selected by {expression}"
        for taint in device.taints:
            blocks = taint.effect in ("NoSchedule", "NoExecute")
            if blocks and not any(_tolerates(t, taint) for t in option.tolerations):
                yield f"{each.key} has taint {taint}"
        capacity = {c.name: c.value for c in device.capacity}
        consumed = dict(each.consumed)
        for name, amount in option.capacity:
            if capacity.get(name, -1) < amount:
                yield f"{each.key} has too little {name}"
            if device.shared and consumed.get(name, -1) < amount:
                yield f"{each.key}: too little {name} consumed"
        if device.shared != (each.share is not None):
            yield f"{each.key} has share ID {each.share!r}"

    def _holds(self, constraint: DeviceConstraint, devices: Sequence[AllocatedDevice]) -> bool:
        values = [
            self._attribute(each.key, constraint.attribute)
            for each in devices
            if not constraint.requests
            or {each.request, each.request.partition("/")[0]} & {*constraint.requests}
        ]
        if None in values:
            return False
        return len(set(values)) == len(values) if constraint.distinct else len(set(values)) <= 1

    def _attribute(self, key: DeviceKey, name: str) -> Attribute | None:
        attributes = dict(self.devices[key][1].attributes)
        domain, _, plain = name.partition("/")
        return attributes.get(name) or (attributes.get(plain) if domain == key[0] else None)

    def _about_all(self, claims: Iterable[DeviceClaimInfo]) -> Iterator[str]:
        holders: Counter[DeviceKey] = Counter()
        consumed: Counter[tuple[DeviceKey, str]] = Counter()
        held = (each for c in claims for each in (c.allocation.devices if c.allocation else ()))
        for each in held:
            if not each.admin and each.key in self.devices:
                holders[each.key] += 1
                consumed.update({(each.key, name): amount for name, amount in each.consumed})
        for key, count in holders.items():
            _, device = self.devices[key]
            if count > 1 and not device.shared:
                yield f"{key} is given away {count} times"
            for capacity in device.capacity if device.shared else ():
                if consumed[key, capacity.name] > capacity.value:
                    yield f"{key}: more {capacity.name} is consumed than there is"
        yield from self._about_counters(holders)

    def _about_counters(self, held: Iterable[DeviceKey]) -> Iterator[str]:
        used: Counter[tuple[str, str, str, str]] = Counter()
        for key in held:
            for name, amounts in self.devices[key][1].counters:
                used.update({(*key[:2], name, counter): n for counter, n in amounts})
        for at, amount in used.items():
            if amount > self.counters[at]:
                yield f"counter {at}: {amount} of {self.counters[at]}"

    def _reaches(self, key: DeviceKey, node: str) -> bool:
        of_slice, device = self.devices[key]
        scope = of_slice.scope or device.scope or NodeScope()
        if scope.name:
            return scope.name == node
        return scope.everywhere or (scope.terms is not None and self._in_terms(scope.terms, node))

    def _in_terms(self, terms: tuple[NodeTerm, ...] | None, node: str) -> bool:
        return terms is None or any(self._in_term(term, node) for term in terms)

    def _in_term(self, term: NodeTerm, node: str) -> bool:
        labels = self.labels.get(node, {})
        values = [(labels.get(e.key), e) for e in term.expressions]
        values += [(node, e) for e in term.fields]
        for value, expression in values:
            assert expression.operator == "In", expression
            if value not in expression.values:
                return False
        return True


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )
