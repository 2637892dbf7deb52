"""A scheduler whose pods have ResourceClaims: the real event handlers, and claims on an API server.

The test decides when claims are delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from kube.base.errors import Invalid
from kube.client.meta import Json
from kube.client.resources import PODS, RESOURCE_CLAIMS
from scheduler.cel.selectors import Selectors
from scheduler.claims.allocation_writer import AllocationWriter
from scheduler.claims.claim_client import ClaimClient
from scheduler.claims.claim_finalizers import ClaimFinalizers
from scheduler.claims.claim_releases import ClaimReleases
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.values.model import POD_GROUP, ClaimKey
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from scheduler.decoding.objects import decode_pod
from scheduler.expected.pods import ExpectedPods
from scheduler.support.device_budget import DeviceWork
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import (
    DeviceClassHandler,
    ResourceClaimHandler,
    ResourceSliceHandler,
)
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from scheduler.watch.object_handlers import claim_template_handler
from tests.scheduler.harness import Harness, SchedulerApi
from tests.scheduler.state_builder import StateBuilder
from tests.support.memory_api import Event, Request

DRIVER = "gpu.example.com"


class ClaimsApi(SchedulerApi):
    """The pods and claims of the harness; each change is delivered at once, unless delayed.

    `before_write` is called with (name, step), and may raise or change the stored object. A step is
    the subresource of a claim, None for its metadata, `create`, `delete`, or `tell` for a pod.
    """

    before_write: Callable[[str, str | None], None] = staticmethod(lambda _name, _step: None)

    def __init__(self, builder: StateBuilder, harness: ClaimsHarness) -> None:
        super().__init__(builder, harness.pending)
        self.harness = harness
        self.claims, self.pods = self.view(RESOURCE_CLAIMS, "ns"), self.view(PODS, "ns")
        self.writes: list[tuple[str, str | None]] = []
        self.checks[RESOURCE_CLAIMS.full_name] = _check_claim
        self.checks[PODS.full_name] = self._drop_unknown
        self.follow(RESOURCE_CLAIMS, self._claim_changed)

    def store(self, claim: Json) -> None:
        """Store another writer's claim."""
        self.put(RESOURCE_CLAIMS, claim)

    def drop_claim(self, name: str) -> None:
        """Remove a deleted claim."""
        self.drop(RESOURCE_CLAIMS, name, "ns")

    async def before(self, request: Request) -> None:
        if _tells(request):
            self.show_pod(request.name)
            self.before_write(request.name, "tell")
        elif request.collection == RESOURCE_CLAIMS.full_name:
            if request.verb != "get":
                self.before_write(request.name, _step(request))
            self._expect(request)
        else:
            await super().before(request)

    async def after(self, request: Request) -> None:
        if _tells(request):
            self.log.append(f"tell {request.name}")
        elif request.collection != RESOURCE_CLAIMS.full_name:
            await super().after(request)
        elif request.verb != "get":
            self.log.append(f"{_step(request) or 'metadata'} {request.name}")
            if request.verb == "patch":
                self.writes.append((request.name, request.subresource or None))

    def pod_changed(self, event: Event, kind: str) -> None:
        super().pod_changed(event, kind)
        if "deletionTimestamp" not in event.obj["metadata"]:
            self.harness.pods.upsert(decode_pod(event.raw))

    def _drop_unknown(self, before: Json, pod: Json) -> None:
        """Drop a field that an older API server does not know; keep it as a newer one does."""
        name = "extendedResourceClaimStatus"
        if not self.harness.extends:
            pod["status"].pop(name, None)
        elif self.harness.keeps and name in before["status"]:
            pod["status"].setdefault(name, before["status"][name])

    def _claim_changed(self, event: Event, kind: str) -> None:
        meta = event.obj["metadata"]
        if kind == "DELETED":
            self.harness.claims.delete((meta["namespace"], meta["name"]))
        else:
            self.harness.claim_event(event.obj)

    def _expect(self, request: Request) -> None:
        """Check that the scheduler may send the request."""
        if request.verb == "create":
            assert "status" not in request.body
        if request.verb == "patch":
            paths = [op["path"] for op in request.body if "metadata" not in op["path"]]
            is_status = bool(request.subresource)
            assert all(is_status == path.startswith("/status") for path in paths), paths
            finalizers = [op for op in request.body if "finalizers" in op["path"]]
            assert not (finalizers and is_status)
        claim = self.stored(RESOURCE_CLAIMS, request.name, request.namespace)
        if request.verb == "delete" and claim is not None:
            assert request.body["preconditions"]["uid"] == claim["metadata"]["uid"]
            assert not claim["metadata"].get("finalizers"), "kube-controller-manager would help"
            assert not (claim.get("status") or {}).get("allocation")


def _tells(request: Request) -> bool:
    """Return True if the request writes a pod's claim for extended resources."""
    pods, said = request.collection == PODS.full_name, "extendedResourceClaimStatus"
    return pods and request.verb == "patch" and said in request.body[-1]["path"]


def _step(request: Request) -> str | None:
    return request.verb if request.verb != "patch" else request.subresource or None


def _check_claim(before: Json, after: Json) -> None:
    """Validate as the API server does. Raises Invalid."""
    old, new = before.get("status") or {}, after.get("status") or {}
    if old.get("allocation") and new.get("allocation") not in (None, old["allocation"]):
        raise Invalid(422, "Invalid", "field is immutable")
    if new.get("reservedFor") and not new.get("allocation"):
        raise Invalid(422, "Invalid", "reservedFor without allocation")
    if len(new.get("reservedFor") or ()) > 256:
        raise Invalid(422, "Invalid", "too many")
    assert not new.get("allocation") or new.get("reservedFor"), "an allocation without reservedFor"


class ClaimsHarness(Harness):
    """A harness; `pods`, `groups` and `claims` are the event handlers; `api` stores the claims.

    `extends` is false for an API server without claims for extended resources. `keeps` is true for
    one that never removes their names from pods, as since Kubernetes 1.37.
    """

    api: ClaimsApi
    extends = True
    keeps = False

    def __init__(
        self, *, timeout: float = 120.0, claims_refused: str = "", serves_claims: bool = True
    ) -> None:
        self.claims_refused, self.serves_claims = claims_refused, serves_claims
        super().__init__(timeout=timeout)

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> StateBuilder:
        self.selectors = Selectors()
        return StateBuilder(claim_changed, self.selectors.evaluate)

    def build_device_work(self) -> DeviceWork:
        allowance = self.builder.state.devices.allowance
        return DeviceWork(allowance, self.selectors, self.server_clock)

    def build_api(self) -> SchedulerApi:
        return ClaimsApi(self.builder, self)

    def build_handlers(self, expected: ExpectedPods | None = None) -> None:
        """Create the event handlers; without `expected` they ignore expected pods."""
        state = self.builder.state
        self.news = ClaimNews()
        self.pods = PodHandler(
            state, self.changed.set, claims_refused=self.claims_refused, expected=expected
        )
        self.claims = ResourceClaimHandler(state, self.changed.set, self.pods, self.news)
        self.groups = GroupHandler(
            POD_GROUP, state, self.changed.set, self.observed, self.pods.on_group_changed
        )
        self.slices = ResourceSliceHandler(state, self.changed.set)
        self.classes = DeviceClassHandler(state, self.changed.set, self.pods)
        self.templates = claim_template_handler(self.changed.set, self.pods)
        if self.serves_claims:
            self.pods.serve_claims(templates=True)

    def build_allocations(self) -> tuple[AllocationWriter, ClaimReleases]:
        state = self.builder.state
        if self.expected is None:
            self.build_handlers()
        clock, access = self.server_clock, ClaimClient(self.api, self.claims, self.freeze)
        extended = ExtendedClaims(self.api, access, state, self.pods.claims, clock)
        self.finalizers = ClaimFinalizers(access, state, self.news)
        allocations = AllocationWriter(
            access, state, self.news, self.group_events, extended, clock=clock
        )
        allocations.lead(leads=True)
        return allocations, ClaimReleases(
            access, state, self.news, extended, clock=clock, reshape=self.pods.reshape
        )

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._parts(), self.finalizers.run(self.fence)]

    def device_class(
        self, name: str = "gpu", *expressions: str, resource: str | None = None
    ) -> None:
        """Add a device class, which provides the extended resource if given."""
        selectors = [{"cel": {"expression": text}} for text in expressions]
        spec = {"selectors": selectors, "extendedResourceName": resource}
        body = {"metadata": {"name": name}, "spec": spec}
        self.classes.upsert(decode_device_class(_encoded(body)))

    def devices(self, node: str, devices: int | list[Json], *, generation: int = 1) -> None:
        """Add the node's slice, with that many plain devices or these."""
        listed = (
            [{"name": f"d{index}"} for index in range(devices)]
            if isinstance(devices, int)
            else devices
        )
        self.slice(node, generation=generation, devices=listed)

    def slice(
        self, node: str, part: str = "", *, generation: int = 1, count: int = 1, **content: Any
    ) -> None:
        """Add a part of the node's pool, which has `count` slices."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": count}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
        body = {"metadata": {"name": f"slice-{node}{part}"}, "spec": spec}
        self.slices.upsert(decode_resource_slice(_encoded(body)))

    def claim(
        self, name: str, *, count: int = 1, owner: str = "", namespace: str = "ns", **request: Any
    ) -> Json:
        """Create a claim for that many devices; with an owner's name it is that pod's own."""
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-claim-{name}"}
        if owner:
            reference = {"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
            metadata["ownerReferences"] = [{"apiVersion": "v1", **reference}]
        exactly = {"deviceClassName": "gpu", "count": count, **request}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        claim = {"metadata": metadata, "spec": spec}
        self.api.store(claim)
        return claim

    def claim_event(self, claim: Json) -> None:
        self.claims.upsert(decode_resource_claim(_encoded(claim)))

    def pod(
        self,
        name: str,
        group: str = "",
        *,
        own: int = 1,
        shared: Sequence[str] = (),
        namespace: str = "ns",
        named: bool = True,
        **more: Any,
    ) -> None:
        """Create a pod with `own` claims from a template (NAME-0 and so on) and `shared` ones.

        Unless `named`, its status does not name its own claims yet.
        """
        entries = [{"name": f"own{at}", "resourceClaimTemplateName": "t"} for at in range(own)]
        entries += [{"name": each, "resourceClaimName": each} for each in shared]
        statuses = [{"name": f"own{at}", "resourceClaimName": f"{name}-{at}"} for at in range(own)]
        spec = {"schedulerName": "muster-scheduler", "resourceClaims": entries, **more}
        labels = {"scheduling.muster.dev/pod-group": group} if group else {}
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": labels,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if named else {})}
        self.pod_event({"metadata": metadata, "spec": spec, "status": status})

    def pod_event(self, pod: Json) -> None:
        self.api.put(PODS, pod)

    def gang(self, name: str, pods: int, *, claims: bool = True) -> list[str]:
        """Create a gang of pods, each with its own claim, and return their names."""
        self.observe(self.builder.gang(name, pods))
        names = [f"{name}-{at}" for at in range(pods)]
        for each in names:
            self.pod(each, name)
            if claims:
                self.claim(f"{each}-0", owner=each)
        return names

    def delete_pod(self, name: str) -> None:
        self.pods.delete(("ns", name))
        self.api.drop(PODS, name, "ns", told=False)

    def held(self) -> dict[str, list[str]]:
        """Return the devices of each allocated claim in the API server."""
        found: dict[str, list[str]] = {}
        for name, claim in self.api.claims.items():
            allocation = (claim.get("status") or {}).get("allocation")
            if allocation:
                results = allocation["devices"]["results"]
                found[name] = [f"{each['pool']}/{each['device']}" for each in results]
        return found

    def consumers(self, name: str) -> list[str]:
        status = self.api.claims[name].get("status") or {}
        return [each["name"] for each in status.get("reservedFor") or ()]

    def foreign(self, name: str, pool: str, device: str, *consumers: str, **more: Any) -> None:
        """Allocate a claim as another scheduler; `more` are fields of its result."""
        claim = self.api.claims[name]
        result = {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device, **more}
        claim["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [
                {"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in consumers
            ],
        }
        self.api.store(claim)


def _encoded(body: Json) -> bytes:
    return msgspec.json.encode(body)
