"""Informers of the scheduler: one reflector per resource, all into one state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from api import features
from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP, WORKLOAD
from api.features import Feature, FeatureGates
from api.scheduler_names import USUAL, SchedulerNames
from kube.base.clock import Clock, SystemClock
from kube.base.errors import ConfigError, Forbidden, KubeError, NotFound
from kube.client import discovery
from kube.client.client import Client
from kube.client.meta import HasMeta, decode_partial, decode_raw
from kube.client.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PRIORITY_CLASSES,
    PVCS,
    PVS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)
from kube.client.server_version import release_of
from kube.concurrency.event_wait import done_within
from kube.concurrency.freeze import Freeze
from kube.informers.quarantine import Quarantine
from kube.informers.reflector import Delivery, OnSetAside, Reflector, Sink
from scheduler.cel.selectors import Selectors
from scheduler.core.state.state import State
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey, Release
from scheduler.decoding.device_objects import (
    decode_claim_template,
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
    decode_taint_rule,
)
from scheduler.decoding.objects import (
    GroupObject,
    decode_budget,
    decode_group,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_service,
    decode_workload,
)
from scheduler.decoding.volume_objects import (
    decode_claim,
    decode_class,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
    decode_volume,
)
from scheduler.expected.pods import ExpectedPods
from scheduler.support.config import ExpectedLimits
from scheduler.support.kinds import GROUPS
from scheduler.support.metrics import TAKEOVERS_STALE
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import (
    DeviceClassHandler,
    ResourceClaimHandler,
    ResourceSliceHandler,
)
from scheduler.watch.event_handlers import (
    DaemonSetHandler,
    GroupHandler,
    PodHandler,
    PriorityClassHandler,
)
from scheduler.watch.native_groups import NativeGroupWatch
from scheduler.watch.object_handlers import (
    claim_handler,
    claim_template_handler,
    csi_driver_handler,
    csi_node_handler,
    disruption_budget_handler,
    namespace_handler,
    node_handler,
    service_handler,
    storage_capacity_handler,
    storage_class_handler,
    taint_rule_handler,
    volume_handler,
    workload_handler,
)
from scheduler.watch.published_places import assume_published

T = TypeVar("T", bound=HasMeta)

_PATIENCE: Final = 30.0
"""Seconds that a new leader waits for each kind it can decide without; then it uses its old
cache."""

_TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
"""The version since Kubernetes 1.37, which is served by default, and the earlier ones."""

_RETRY_SECONDS: Final = 1.0
"""Seconds between two requests for a kind after an error of the API server."""

_MAPS_CLASSES: Final = (1, 36)
"""Release since which each class maps an extended resource of its name, by default."""

_log = structlog.get_logger()


def _nothing() -> None:
    """Do nothing: the default of `on_change`."""


@dataclass(slots=True)
class SchedulerInformers:
    """The reflectors, and the state that they update.

    `observed` has the last object of each group. `on_change` is called after each event. Skipped
    objects are in `quarantine`. No event is applied during a `freeze`. `scheduler_names` decide
    which pods are this scheduler's, `gates` which features are on. If the gate for devices is on,
    `run_devices` watches them where the API server serves ResourceClaims; `claim_news` is notified
    of changed claims. `expected` are the expected pods of groups, within `expected_limits` for a
    namespace; None while their gate is off. `clock`, which knows the API server's time of day,
    times watches and deletions of pods.
    """

    client: Client
    state: State
    on_change: Callable[[], None] = _nothing
    observed: dict[GroupKey, GroupObject] = field(default_factory=dict)
    priority_classes: PriorityClassHandler = field(init=False)
    quarantine: Quarantine = field(default_factory=Quarantine)
    freeze: Freeze = field(default_factory=Freeze)
    scheduler_names: SchedulerNames = USUAL
    gates: FeatureGates = features.USUAL
    expected_limits: ExpectedLimits = ExpectedLimits()  # noqa: RUF009 - it is frozen
    clock: Clock = field(default_factory=SystemClock)
    expected: ExpectedPods | None = field(init=False, default=None)
    pods: PodHandler = field(init=False)
    claim_news: ClaimNews = field(default_factory=ClaimNews)
    device_claims: ResourceClaimHandler = field(init=False)
    reflectors: tuple[Reflector[Any], ...] = field(init=False)
    device_reflectors: tuple[Reflector[Any], ...] = field(init=False)
    taint_rule_reflectors: tuple[Reflector[Any], ...] = field(init=False)
    template_reflector: Reflector[Any] = field(init=False)
    devices_known: asyncio.Event = field(default_factory=asyncio.Event)
    native_groups: NativeGroupWatch | None = field(init=False, default=None)
    _devices_served: bool = False
    _device_classes: DeviceClassHandler = field(init=False)

    def __post_init__(self) -> None:
        state, on_change = self.state, self.on_change
        if Feature.EXPECTED_PODS in self.gates:
            self.expected = ExpectedPods(
                state,
                self.expected_limits,
                self.scheduler_names,
                claims_refused=self._claims_refused,
            )
        self.pods = pods = PodHandler(
            state,
            on_change,
            self.scheduler_names,
            claims_refused=self._claims_refused,
            expected=self.expected,
            clock=self.clock,
        )
        self.priority_classes = PriorityClassHandler(state)
        nodes = node_handler(state, on_change)
        claims, volumes = claim_handler(state, on_change), volume_handler(state, on_change)
        classes = storage_class_handler(state, on_change)
        capacities = storage_capacity_handler(state, on_change)
        self.reflectors = (
            self._reflector(NODES, nodes, decode_node, nodes.set_aside),
            self._reflector(NAMESPACES, namespace_handler(state, on_change), decode_namespace),
            self._reflector(PDBS, disruption_budget_handler(state), decode_budget),
            self._reflector(SERVICES, service_handler(state), decode_service),
            self._reflector(PRIORITY_CLASSES, self.priority_classes, decode_raw),
            self._reflector(DAEMON_SETS, DaemonSetHandler(state), decode_partial),
            self._reflector(PVCS, claims, decode_claim, claims.set_aside),
            self._reflector(PVS, volumes, decode_volume, volumes.set_aside),
            self._reflector(STORAGE_CLASSES, classes, decode_class, classes.set_aside),
            self._reflector(CSI_DRIVERS, csi_driver_handler(state, on_change), decode_csi_driver),
            self._reflector(
                CSI_STORAGE_CAPACITIES, capacities, decode_storage_capacity, capacities.set_aside
            ),
            # Without `set_aside`: an undecodable CSINode keeps its last limits. Missing ones would
            # mean no limit at all.
            self._reflector(CSI_NODES, csi_node_handler(state, on_change), decode_csi_node),
            *(
                self._reflector(
                    GROUPS[kind],
                    GroupHandler(kind, state, on_change, self.observed, *members, gates=self.gates),
                    decode_group,
                )
                # Pods name PodGroups only.
                for kind, members in (
                    (COMPOSITE_POD_GROUP, ()),
                    (POD_GROUP, (pods.on_group_changed,)),
                )
            ),
            self._reflector(WORKLOAD, workload_handler(state, on_change), decode_workload),
            self._reflector(PODS, pods, decode_pod, pods.set_aside),
        )
        if Feature.NATIVE_GROUPS in self.gates:
            self.native_groups = self._native_groups(pods)
        self.device_claims = ResourceClaimHandler(state, on_change, pods, self.claim_news)
        self._device_classes = device_classes = DeviceClassHandler(state, on_change, pods)
        slices = ResourceSliceHandler(state, on_change)
        self.device_reflectors = (
            self._reflector(
                DEVICE_CLASSES, device_classes, decode_device_class, device_classes.set_aside
            ),
            self._reflector(RESOURCE_SLICES, slices, decode_resource_slice, slices.set_aside),
            self._reflector(
                RESOURCE_CLAIMS,
                self.device_claims,
                decode_resource_claim,
                self.device_claims.set_aside,
                # Only a complete list confirms the writes to claims.
                on_list=self.device_claims.listing,
            ),
        )

        templates = claim_template_handler(on_change, pods)
        self.template_reflector = self._reflector(
            RESOURCE_CLAIM_TEMPLATES, templates, decode_claim_template, templates.set_aside
        )
        rules = taint_rule_handler(state, on_change)
        self.taint_rule_reflectors = tuple(
            self._reflector(
                DEVICE_TAINT_RULES._replace(version=version),
                rules,
                decode_taint_rule,
                rules.set_aside,
            )
            for version in _TAINT_RULE_VERSIONS
        )

    def _native_groups(self, pods: PodHandler) -> NativeGroupWatch:
        state, on_change, gates = self.state, self.on_change, self.gates
        return NativeGroupWatch(
            self.client,
            {
                kind: GroupHandler(kind, state, on_change, self.observed, *members, gates=gates)
                for kind, members in (
                    (NATIVE_COMPOSITE_POD_GROUP.full_kind, ()),
                    (NATIVE_POD_GROUP.full_kind, (pods.on_native_group_changed,)),
                )
            },
            pods,
            reflector=lambda resource, handler: self._reflector(resource, handler, decode_group),
            reread_pods=self.reflectors[-1].relist,
            clock=self.clock,
            freeze=self.freeze,
        )

    def _reflector(
        self,
        resource: Resource,
        sink: Sink[T],
        decode: Callable[[bytes], T],
        on_set_aside: OnSetAside | None = None,
        on_list: Callable[[bool], None] = lambda _under_way: None,
    ) -> Reflector[T]:
        return Reflector(
            self.client,
            resource,
            sink,
            decode=decode,
            clock=self.clock,
            delivery=Delivery(self.quarantine, on_set_aside, on_list, self.freeze),
        )

    @property
    def synced(self) -> bool:
        """True if every watch has delivered its first list."""
        native = self.native_groups
        known = self.devices_known.is_set() and (native is None or native.known.is_set())
        return known and all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def watched(self) -> tuple[Reflector[Any], ...]:
        """The reflectors of all kinds that are served."""
        native = self.native_groups.reflectors.values() if self.native_groups is not None else ()
        devices = self.device_reflectors if self._devices_served else ()
        return (*self.reflectors, *native, *devices)

    def runs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield all that has to run, each until cancelled."""
        *others, pods = self.reflectors
        yield from (reflector.run() for reflector in others)
        yield self._run_pods(pods)
        yield self.run_devices()
        if self.native_groups is not None:
            yield self.native_groups.run()

    async def _run_pods(self, pods: Reflector[Any]) -> None:
        if self.native_groups is not None:
            # Until then, it is not known whose groups pods name by `spec.schedulingGroup`.
            await self.native_groups.discovered.wait()
        await self._read_release()
        await pods.run()

    async def wait(self) -> None:
        """Wait until every watch has delivered its first list."""
        for reflector in self.reflectors:
            await reflector.synced.wait()
        await self.devices_known.wait()
        if self.native_groups is not None:
            await self.native_groups.known.wait()

    @property
    def _claims_refused(self) -> str:
        """The reason why pods with ResourceClaims are refused even if served, or an empty text."""
        off = Feature.DEVICE_CLAIMS not in self.gates
        return f"resourceClaims ({self.gates.off_text(Feature.DEVICE_CLAIMS)})" if off else ""

    async def run_devices(self) -> None:
        """Watch the kinds for devices once the API server serves them, until cancelled."""
        release = await self._read_release()
        while self._claims_refused or not await self._serves_devices():
            # The scheduler need not wait for them: pods with claims are refused meanwhile.
            self.devices_known.set()
            await asyncio.sleep(discovery.PROBE_SECONDS)
            release = await self._read_release()
        # Before the first class is decoded, as its resources depend on it. Earlier API servers may
        # map the resource that a class names, which they drop where that is off.
        self._device_classes.implicit = release >= _MAPS_CLASSES
        async with asyncio.TaskGroup() as group:
            for reflector in self.device_reflectors:
                group.create_task(reflector.run())
            for reflector in self.device_reflectors:
                await reflector.synced.wait()
            # Rules before claims, or the first pods would be decided without their taints.
            rules_watched = await self._watch_taint_rules(group)
            templates = await self._watch_templates(group)
            await self.freeze.over()
            self._devices_served = True
            self.pods.serve_claims(templates=templates)
            self.devices_known.set()
            self.on_change()
            # An administrator may upgrade the API server, enable the API or grant the right at any
            # time. The release first: it decides what a rule without a selector taints.
            while True:
                await asyncio.sleep(discovery.PROBE_SECONDS)
                await self._read_release()
                rules_watched = rules_watched or await self._watch_taint_rules(group)
                if not templates and await self._watch_templates(group):
                    templates = True
                    self.pods.serve_claims(templates=True)
                    self.on_change()

    async def _read_release(self) -> Release:
        """Decide as kube-scheduler of the API server's release does, and return that.

        Waits while the API server is down.
        """
        while True:
            try:
                said = await self.client.request("GET", "/version")
            except KubeError as error:
                _log.warning("failed to read the version of the API server", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            release = release_of(said)
            await self.freeze.over()
            before = self.state.release
            # A proxy in front of the API server may respond without numbers.
            if release in {(0, 0), before}:
                return before
            _log.info("read the release of the API server", release="{}.{}".format(*release))
            self.state.set_release(release)
            self.on_change()
            if (pods := self.reflectors[-1]).synced.is_set():
                # What a resized pod requests depends on the release.
                await pods.relist()
            return release

    async def _serves_devices(self) -> bool:
        """True if all kinds are served and readable. Waits while the API server is down."""
        refused = "pods with ResourceClaims are refused"
        for resource in (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS):
            if not await self._serves(resource, refused):
                return False
        return True

    async def _watch_taint_rules(self, group: asyncio.TaskGroup) -> bool:
        """Watch DeviceTaintRules in the newest version that is served, if any."""
        for reflector in self.taint_rule_reflectors:
            if await self._serves(reflector.resource, "DeviceTaintRules are not followed"):
                group.create_task(reflector.run())
                await reflector.synced.wait()
                # A new leader catches up with it, too (`watched`).
                self.device_reflectors = (*self.device_reflectors, reflector)
                return True
        return False

    async def _watch_templates(self, group: asyncio.TaskGroup) -> bool:
        """Watch ResourceClaimTemplates if they may be read and pods are expected at all."""
        reflector, otherwise = self.template_reflector, "no device is held for expected pods"
        if self.expected is None:
            return True
        if not await self._serves(reflector.resource, otherwise):
            return False
        group.create_task(reflector.run())
        await reflector.synced.wait()
        self.device_reflectors = (*self.device_reflectors, reflector)
        return True

    async def _serves(self, resource: Resource, otherwise: str) -> bool:
        while True:
            try:
                # A list, not discovery: it also shows if the role allows to read the kind.
                await discovery.get(self.client, resource.path(), self.clock, limit="1")
            except NotFound:
                return False
            except Forbidden as error:
                # During a downgrade, the roles are already those of the earlier version.
                _log.error(otherwise, error=str(error))
                return False
            except KubeError as error:
                _log.warning("failed to discover devices", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return True


async def catch_up(reflectors: Iterable[Reflector[Any]], since: float, clock: Clock) -> None:
    """Wait until each reflector has what the server had at that monotonic time.

    Nodes and pods are required for any decision. Others are waited for as long as `_PATIENCE`,
    because a kind whose lists fail must not stop all scheduling. A kind that may not be read any
    more is not waited for: during a downgrade, the roles are already those of the earlier version.
    """
    async with asyncio.TaskGroup() as group:
        for reflector in reflectors:
            group.create_task(_catch_up(reflector, since, clock))


async def _catch_up(reflector: Reflector[Any], since: float, clock: Clock) -> None:
    resource = reflector.resource
    # Created before it increases: Prometheus sees no increase in a counter's first value.
    stale = TAKEOVERS_STALE.labels(resource.full_name)
    if resource in (NODES, PODS):
        await reflector.catch_up(since)
        return
    try:
        if await done_within(reflector.catch_up(since, permitted=False), _PATIENCE, clock):
            return
        # The old cache is better than no scheduling; the reflector catches up on its own.
        problem = f"not read within {_PATIENCE:.0f} s"
    except Forbidden as error:
        problem = str(error)
    stale.inc()
    _log.error("leading with a stale cache", resource=resource.full_name, error=problem)


async def require_groups(client: Client) -> None:
    """Raise ConfigError if the API server does not serve the kinds of groups; or other KubeErrors.

    Reflectors wait for a kind that is not served, but users should get the error immediately.
    """
    try:
        for resource in GROUPS.values():
            await client.request("GET", resource.path(), params={"limit": "1"})
    except NotFound as error:
        raise ConfigError(
            f"{client.server} does not serve {resource.full_name}: is Muster installed?"
        ) from error


async def read(
    client: Client,
    *,
    seconds: float = 60,
    scheduler_names: SchedulerNames = USUAL,
    gates: FeatureGates = features.USUAL,
    expected_limits: ExpectedLimits = ExpectedLimits(),
) -> SchedulerInformers:
    """Read a cluster once, with the places in statuses. Raises KubeError after `seconds`."""
    await require_groups(client)
    state = State(evaluate=Selectors().evaluate)
    informers = SchedulerInformers(
        client,
        state,
        scheduler_names=scheduler_names,
        gates=gates,
        expected_limits=expected_limits,
        clock=client.server_clock,
    )
    tasks = [asyncio.ensure_future(each) for each in informers.runs()]
    try:
        async with asyncio.timeout(seconds):
            await informers.wait()
    except TimeoutError as error:
        # Reflectors repeat for ever what fails, and a command must not.
        raise ConfigError(
            f"{client.server}: not all that the scheduler looks at could be read in {seconds:g} s"
        ) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    # No loop runs here that would give way between the steps.
    for _ in informers.state.catch_up():
        pass
    if informers.expected is not None:
        # Reservations are not read here: without the statuses, places would be given away.
        assume_published(state, informers.expected, informers.observed)
    return informers
