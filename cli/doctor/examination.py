"""All checks on one cluster. A check that cannot run is a finding, and ends no other check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from api.constants import (
    COSCHEDULING,
    FOREIGN_GROUPS_ENABLED,
    LABEL_FOREIGN_GROUPS,
    TRAIN_JOB,
)
from api.integration.kinds import EMBEDDING_KINDS, OWNER_KINDS
from api.reading import dig, text
from cli.doctor import (
    access,
    gates,
    groups,
    health,
    held_places,
    hyper_nodes,
    idle_groups,
    installation,
    keys,
    leaders,
    neighbours,
    network_policies,
    pods,
    registration,
    topology_levels,
)
from cli.doctor.findings import About, Check, Finding, Limited, check_failed
from cli.doctor.installation import Installation
from cli.topology.hyper_nodes import HYPER_NODES
from cli.trees.listing import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS
from kube.base.build import read_build
from kube.base.errors import KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.paging import pages
from kube.client.resources import (
    CRDS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_SLICES,
    Resource,
)

RENEWALS: Final = 4.0
"""Seconds between two readings of the leases: longer than leaders wait between renewals."""

# Kinds whose annotations are checked, and whether their metadata suffices. Owners and kinds that
# embed templates need the complete object.
_ANNOTATED: Final = (
    *((it.kind, False) for it in OWNER_KINDS.values()),
    *((it.kind, False) for it in EMBEDDING_KINDS.values()),
    (TRAIN_JOB, True),
    (WORKLOADS, True),
    (COSCHEDULING, True),
    (NAMESPACES, True),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Namespaces of Muster and of the trial groups, and URLs of processes elsewhere.

    With `admission_only` the trial groups are all that is checked.
    """

    namespace: str = "muster-system"
    trial_namespace: str = "default"
    urls: Sequence[str] = ()
    renewals: float = RENEWALS
    admission_only: bool = False


class Examination:
    """The checks of one cluster. Reads once what several of them need."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client = client
        self._options = options
        self._found: list[Finding] = []
        self._definitions: list[Json] = []
        self.installed = Installation(options.namespace)
        self.responding: Sequence[health.Process] = ()
        """The processes that responded to the check of their health."""

    @property
    def processes(self) -> list[health.Process]:
        """The known processes of Muster."""
        return health.processes(self.installed.pods, self._options.urls)

    async def run(self) -> list[Finding]:
        """Run all checks; return the findings.

        Raises Unreachable and ConfigError if there is no cluster to examine.
        """
        client, options = self._client, self._options
        version = await installation.read_version(client)
        self._found += installation.check_version(version, read_build().version)
        if options.admission_only:
            await self._trials()
            return self._found
        clock = client.server_clock
        namespace = About("Namespace", options.namespace)
        # The leases are read first and again at the end, so that the other checks use the time
        # between.
        first = await self._read(
            "leases", namespace, leaders.read_leases(client, options.namespace)
        )
        since = clock.monotonic()

        read = await self._read(
            "parts", namespace, installation.read_installation(client, options.namespace)
        )
        self.installed = read or self.installed
        if read is not None:
            self._found += installation.check_parts(read)
            self._found += installation.check_pods(read.pods)
        await self._registration()
        await self._trials()
        await self._access()
        await self._each("neighbours", CRDS, self._definitions.append, metadata_only=True)
        await self._groups_and_nodes()
        await self._pods()
        await self._keys()
        await self._health()
        await self._neighbours()
        if first is not None and self.installed.config.leader_election.enabled:
            await clock.sleep(since + options.renewals - clock.monotonic())
            await self._leases(first, timedelta(seconds=clock.monotonic() - since), namespace)
        return list(self.installed.advised(self._found))

    async def _leases(
        self,
        first: dict[str, leaders.LeaseView | None],
        apart: timedelta,
        where: About,
    ) -> None:
        reading = leaders.read_leases(self._client, self._options.namespace)
        second = await self._read("leases", where, reading)
        if second is not None:
            read = leaders.Readings(first, second, apart, self._client.server_clock.now())
            self._found += leaders.check_leases(read, self._options.namespace)

    async def _registration(self) -> None:
        client, namespace = self._client, self._options.namespace
        where = About("CustomResourceDefinition", "*.muster.dev")
        definitions = await self._read("definitions", where, installation.read_definitions(client))
        if definitions is not None:
            self._found += installation.check_definitions(definitions)
        about = About("WebhookConfiguration", "muster")
        # Without the definitions the check of the registration still runs, with less to compare.
        reading = registration.read_registration(client, definitions or {})
        registered = await self._read("registration", about, reading)
        if registered is None:
            return
        now = client.server_clock.now()
        self._found += registration.check_registration(registered)
        self._found += registration.check_bundles(registered, namespace, now)
        secret = About("Secret", registration.secret_name(self.installed), namespace)
        certificate = await self._attempt(
            "certificates", secret, registration.read_certificate(client, secret.name, namespace)
        )
        if not isinstance(certificate, _Failed):
            self._found += registration.check_server(registered, certificate, secret, now)

    async def _trials(self) -> None:
        where = self._options.trial_namespace
        trials = await registration.try_admission(self._client, where)
        self._found += registration.check_trials(trials, where)

    async def _access(self) -> None:
        found, where = self.installed, About("Namespace", self._options.namespace)
        reading = access.read_access(self._client, access.needed(found), found)
        allowed = await self._read("access", where, reading)
        if allowed is not None:
            self._found += access.check_access(allowed, found)

    async def _groups_and_nodes(self) -> None:
        seen, unread, idle = groups.Groups(), Limited("annotations"), Limited("groups")
        now, held = self._client.server_clock.now(), held_places.HeldPlaceCounts()

        def see(kind: str) -> Callable[[Json], None]:
            def one(obj: Json) -> None:
                seen.see(kind, obj)
                idle_groups.check_group(kind, obj, idle, now)
                keys.check_keys(kind, obj, unread)
                held.see(obj)

            return one

        for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
            await self._each("groups", resource, see(resource.kind))
        self._found += seen.findings(now)
        self._found += idle.findings()
        self._found += held.findings()
        self._found += unread.findings()
        nodes = groups.NodeLabels(seen.asked)
        topologies = await self._of_others(topology_levels.TOPOLOGIES)
        levels = topology_levels.TopologyLevels(topology_levels.sources_of(topologies))
        tiers = hyper_nodes.Tiers(await self._of_others(HYPER_NODES))

        def see_node(node: Json) -> None:
            nodes.see([node])
            levels.see(node)
            tiers.see(node)

        if await self._each("topology", NODES, see_node, metadata_only=True):
            # Large clusters have many slices: read only if an attribute could explain a label.
            if nodes.may_be_attributes:
                about = About(RESOURCE_SLICES.kind, RESOURCE_SLICES.full_name)
                await self._attempt("topology", about, self._see_slices(nodes))
            self._found += nodes.findings()
            self._found += levels.findings()
            self._found += tiers.findings()

    async def _of_others(self, resource: Resource) -> list[Json]:
        """Return objects that describe a topology; none if their definition is not installed."""
        found: list[Json] = []
        names = {text(dig(one, "metadata", "name")) for one in self._definitions}
        if resource.full_name in names:
            await self._each("topology", resource, found.append)
        return found

    async def _see_slices(self, nodes: groups.NodeLabels) -> None:
        with suppress(NotFound):  # older API servers serve no devices
            await _show(pages(self._client, RESOURCE_SLICES), nodes.see_slice)

    async def _pods(self) -> None:
        unscheduled, unread = Limited("unscheduled"), Limited("annotations")

        def see(pod: Json) -> None:
            pods.check_pod(pod, unscheduled, self._client.server_clock.now())
            keys.check_keys(PODS.kind, pod, unread)

        await self._each("unscheduled", PODS, see, field_selector="spec.nodeName=")
        self._found += unscheduled.findings()
        self._found += unread.findings()

    async def _keys(self) -> None:
        unread = Limited("annotations")
        for resource, metadata_only in _ANNOTATED:
            is_owner = resource.kind in OWNER_KINDS
            check = keys.check_owner if is_owner else keys.check_keys
            see = partial(check, resource.kind, found=unread)
            await self._each("annotations", resource, see, metadata_only=metadata_only)
        for resource in keys.OF_OTHERS:
            see = partial(keys.check_others, resource.kind, found=unread)
            await self._each("annotations", resource, see, metadata_only=True)
        self._found += unread.findings()

    async def _health(self) -> None:
        pods, namespace = self.installed.pods, self._options.namespace
        policies: list[Json] = []
        if pods:
            where = About("Namespace", namespace)
            reading = network_policies.read_policies(self._client, namespace)
            policies = await self._read("health", where, reading) or []
        # A pod that admits no API server would use up the time of each request.
        closed = network_policies.unreadable(policies, pods)
        self._found += network_policies.check_webhook_port(policies, pods)
        self._found += network_policies.check_unreadable(policies, closed, namespace)
        processes = network_policies.reached(self.processes, closed)
        said = await health.read_ready(self._client, processes)
        self._found += health.check_processes(processes, said)
        self.responding = [
            process
            for process, one in zip(processes, said, strict=True)
            if isinstance(one, health.Ready)
        ]
        await self._gates(self.responding)
        if self.responding:
            return
        # No process responded: events show the last hour.
        set_aside, seen = Limited("set-aside"), set[About]()

        def see(event: Json) -> None:
            health.check_event(event, set_aside, seen, self._client.server_clock.now())

        await self._each("set-aside", EVENTS, see, field_selector="reason=Quarantined")
        self._found += set_aside.findings()

    async def _gates(self, processes: Sequence[health.Process]) -> None:
        installed = bool(self.installed.deployments)
        configured = self.installed.config.gates if installed else None
        where = About("ConfigMap", "muster", self._options.namespace)
        said = await self._read("feature-gates", where, gates.read_gates(self._client, processes))
        if said is not None:
            self._found += gates.check_gates(where, configured, processes, said)

    async def _neighbours(self) -> None:
        self._found += neighbours.check_definitions_of_others(self._definitions)
        about = About("APIGroup", neighbours.NATIVE)
        native = await self._read("neighbours", about, neighbours.read_native(self._client))
        self._found += neighbours.check_native(native or {}, self.installed.config.gates)
        if native is not None:
            self._found += neighbours.check_groups_api(native, self.installed.config.groups.api)
        allowing: list[Json] = []
        selector = f"{LABEL_FOREIGN_GROUPS}={FOREIGN_GROUPS_ENABLED}"
        await self._each(
            "neighbours", NAMESPACES, allowing.append, label_selector=selector, metadata_only=True
        )
        self._found += neighbours.check_namespaces(allowing)

    async def _each(
        self,
        check: str,
        resource: Resource,
        see: Callable[[Json], None],
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> bool:
        """Pass every object of a kind to `see` and keep none; return true if all could be read."""
        listed = pages(
            self._client,
            resource,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )
        about = About(resource.kind, resource.full_name)
        return await self._attempt(check, about, _show(listed, see)) is None

    async def _read(self, check: str, about: About, reading: Awaitable[T]) -> T | None:
        """Return the result; None, with a finding, if the read failed."""
        result = await self._attempt(check, about, reading)
        return None if isinstance(result, _Failed) else result

    async def _attempt(self, check: str, about: About, reading: Awaitable[T]) -> T | _Failed:
        try:
            return await reading
        except KubeError as problem:
            self._found.append(check_failed(Check(check, about), problem))
        # A bug in one check must not end the others.
        except Exception as problem:  # noqa: BLE001 - see above
            text = f"this check failed: {type(problem).__name__}: {problem}"
            action = "report this bug with the file of muster support-bundle"
            self._found.append(Check(check, about).warning(text, action))
        return _Failed()


class _Failed:
    """The result of a check that could not run; a finding reports it."""


async def _show(listed: AsyncIterator[Sequence[Json]], see: Callable[[Json], None]) -> None:
    async for page in listed:
        for obj in page:
            see(obj)
        # One page may take milliseconds to check; other tasks run in between.
        await asyncio.sleep(0)
