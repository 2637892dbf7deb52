"""Event handlers of the kinds whose objects change the state one by one, without a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kube.client.meta import Key
from scheduler.core.framework.events import Event
from scheduler.core.state.state import State
from scheduler.decoding import decode, volume_decode
from scheduler.decoding.device_decode import device_taint_rule
from scheduler.decoding.device_objects import ClaimTemplate, TaintRule
from scheduler.decoding.objects import Namespace, Node, PodDisruptionBudget, Service, Workload
from scheduler.decoding.volume_objects import (
    Claim,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
    Volume,
)
from scheduler.watch.event_handlers import PodHandler
from scheduler.watch.workload_templates import templates_of

T = TypeVar("T")

_OnChange = Callable[[], None]


class ObjectHandler(Generic[T]):
    """Event handler that calls `put` or `remove`, and then `on_change`."""

    def __init__(
        self, put: Callable[[T], None], remove: Callable[[Key], None], on_change: _OnChange
    ) -> None:
        self._put = put
        self._remove = remove
        self._on_change = on_change

    def upsert(self, obj: T) -> None:
        self._put(obj)
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Drop an object that cannot be decoded: what needs it waits."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._remove(key)
        self._on_change()


def node_handler(state: State, on_change: _OnChange) -> ObjectHandler[Node]:
    images: dict[str, int] = {}

    def put(node: Node) -> None:
        state.set_node(decode.node_info(node))
        name, written = node.metadata.name, hash(bytes(node.status.images))
        # Decoding a hundred names costs ten times as much as the rest of the event.
        if images.get(name) != written:
            state.set_images(name, decode.node_images(node))
            images[name] = written

    def remove(key: Key) -> None:
        images.pop(key[1], None)
        state.remove_node(key[1])

    return ObjectHandler(put, remove, on_change)


def namespace_handler(state: State, on_change: _OnChange) -> ObjectHandler[Namespace]:
    return ObjectHandler(
        lambda namespace: state.set_namespace(namespace.metadata.name, namespace.metadata.labels),
        lambda key: state.remove_namespace(key[1]),
        on_change,
    )


def service_handler(state: State) -> ObjectHandler[Service]:
    replicas = state.replicas
    return ObjectHandler(
        lambda service: replicas.set_service(
            (service.metadata.namespace, service.metadata.name), service.spec.selector
        ),
        replicas.remove_service,
        # Only scores depend on it: no root that was refused fits now.
        lambda: None,
    )


def disruption_budget_handler(state: State) -> ObjectHandler[PodDisruptionBudget]:
    budgets = state.disruption_budgets
    return ObjectHandler(
        lambda budget: budgets.set(decode.disruption_budget(budget)),
        budgets.remove,
        # A changed budget requeues no root.
        lambda: None,
    )


def workload_handler(state: State, on_change: _OnChange) -> ObjectHandler[Workload]:
    return ObjectHandler(
        lambda workload: state.set_templates(
            (workload.metadata.namespace, workload.metadata.name), templates_of(workload)
        ),
        lambda key: state.set_templates(key, None),
        on_change,
    )


def claim_handler(state: State, on_change: _OnChange) -> ObjectHandler[Claim]:
    return ObjectHandler(
        lambda claim: state.volumes.set_claim(volume_decode.claim_info(claim)),
        state.volumes.remove_claim,
        _after(state, Event.CLAIM, on_change),
    )


def volume_handler(state: State, on_change: _OnChange) -> ObjectHandler[Volume]:
    return ObjectHandler(
        lambda volume: state.volumes.set_volume(volume_decode.volume_info(volume)),
        lambda key: state.volumes.remove_volume(key[1]),
        _after(state, Event.VOLUME, on_change),
    )


def storage_class_handler(state: State, on_change: _OnChange) -> ObjectHandler[StorageClass]:
    return ObjectHandler(
        lambda each: state.volumes.set_class(volume_decode.class_info(each)),
        lambda key: state.volumes.remove_class(key[1]),
        _after(state, Event.STORAGE_CLASS, on_change),
    )


def csi_driver_handler(state: State, on_change: _OnChange) -> ObjectHandler[CsiDriver]:
    def put(driver: CsiDriver) -> None:
        spec = driver.spec
        required, measured = spec.prevent_pod_scheduling_if_missing, spec.storage_capacity
        state.volumes.set_driver(driver.metadata.name, required=required, measured=measured)

    return ObjectHandler(
        put,
        lambda key: state.volumes.set_driver(key[1]),
        _after(state, Event.CSI_DRIVER, on_change),
    )


def storage_capacity_handler(
    state: State, on_change: _OnChange
) -> ObjectHandler[CsiStorageCapacity]:
    capacities = state.volumes.capacities

    def put(capacity: CsiStorageCapacity) -> None:
        info = volume_decode.storage_capacity_info(capacity)
        if info is None:
            capacities.remove((capacity.metadata.namespace, capacity.metadata.name))
        else:
            capacities.set(info)

    return ObjectHandler(put, capacities.remove, _after(state, Event.STORAGE_CAPACITY, on_change))


def csi_node_handler(state: State, on_change: _OnChange) -> ObjectHandler[CsiNode]:
    return ObjectHandler(
        lambda node: state.volumes.set_limits(
            node.metadata.name, volume_decode.attach_limits(node)
        ),
        lambda key: state.volumes.remove_limits(key[1]),
        _after(state, Event.CSI_NODE, on_change),
    )


def _after(state: State, event: Event, on_change: _OnChange) -> _OnChange:
    """Return a callback that also records the event, which may make a pod fit."""

    def changed() -> None:
        state.happened(event)
        on_change()

    return changed


def taint_rule_handler(state: State, on_change: _OnChange) -> ObjectHandler[TaintRule]:
    slices = state.devices.slices

    def put(written: TaintRule) -> None:
        rule = device_taint_rule(written, state.release)
        if rule is None:
            slices.remove_rule(written.metadata.name)
        else:
            slices.set_rule(rule)

    # A rule that is not understood is dropped, too: the devices that it taints are unknown.
    return ObjectHandler(put, lambda key: slices.remove_rule(key[1]), on_change)


def claim_template_handler(on_change: _OnChange, pods: PodHandler) -> ObjectHandler[ClaimTemplate]:
    """Return the handler of the templates from which expected pods' claims will be created."""
    return ObjectHandler(
        lambda template: pods.on_template_changed(
            (template.metadata.namespace, template.metadata.name), bytes(template.spec.spec)
        ),
        lambda key: pods.on_template_changed(key, None),
        on_change,
    )
