"""A scheduler whose pods have ResourceClaims: the real event handlers, and claims on a fake API.

Claims are stored as JSON, patched as an API server does it, and delivered when a test says so.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import PODS, RESOURCE_CLAIMS, Resource
from localcluster.admission.review import apply_patch
from scheduler.allocations import Allocations
from scheduler.claim_access import ClaimAccess
from scheduler.claim_finalizers import ClaimFinalizers
from scheduler.claim_news import ClaimNews
from scheduler.claim_releases import ClaimReleases
from scheduler.core.model import POD_GROUP, ClaimKey
from scheduler.device_work import DeviceWork
from scheduler.extended_claims import ExtendedClaims
from scheduler.selectors.selectors import Selectors
from scheduler.watch.device_handlers import (
    ClaimTemplateHandler,
    DeviceClassHandler,
    ResourceClaimHandler,
    ResourceSliceHandler,
)
from scheduler.watch.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from scheduler.watch.expected_pods import ExpectedPods
from scheduler.watch.objects import decode_pod
from tests.scheduler.harness import FakeApi, Harness
from tests.scheduler.state_builder import StateBuilder

DRIVER = "gpu.example.com"


class ClaimsApi(FakeApi):
    """`claims` are stored by name; each write is delivered at once unless `holds_back`.

    `before_write` is called with (name, subresource), and may raise or change what is stored.
    """

    def __init__(self, builder: StateBuilder, harness: ClaimsHarness) -> None:
        super().__init__(builder)
        self.harness = harness
        self.claims: dict[str, Json] = {}
        self.version = 100
        self.holds_back = False
        self.held_back: list[Json] = []
        self.writes: list[tuple[str, str | None]] = []
        self.before_write: Callable[[str, str | None], None] = lambda _name, _sub: None

    def store(self, claim: Json) -> None:
        """Somebody wrote the claim."""
        self.version += 1
        claim["metadata"]["resourceVersion"] = str(self.version)
        self.claims[claim["metadata"]["name"]] = claim
        self.tell(copy.deepcopy(claim))

    def tell(self, claim: Json) -> None:
        if self.holds_back:
            self.held_back.append(claim)
        else:
            self.harness.claim_event(claim)

    def go_on(self) -> None:
        """Deliver what was held back, in order."""
        self.holds_back = False
        while self.held_back:
            self.harness.claim_event(self.held_back.pop(0))

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json:
        if resource != RESOURCE_CLAIMS:
            return await super().create(resource, obj, namespace)
        name = obj["metadata"]["name"]
        self.before_write(name, "create")
        if name in self.claims:
            raise AlreadyExists(409, "AlreadyExists", name)
        assert "status" not in obj
        made = copy.deepcopy(obj)
        made["metadata"]["uid"] = f"uid-claim-{name}-{self.version}"
        self.log.append(f"create {name}")
        self.store(made)
        return copy.deepcopy(made)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        if resource != RESOURCE_CLAIMS:
            await super().delete(resource, name, namespace, uid=uid)
            return
        self.before_write(name, "delete")
        if name not in self.claims:
            raise NotFound(404, "NotFound", name)
        claim = self.claims[name]
        assert uid == claim["metadata"]["uid"]
        assert not claim["metadata"].get("finalizers"), "kube-controller-manager would have to help"
        assert not (claim.get("status") or {}).get("allocation")
        self.log.append(f"delete {name}")
        self.remove(name)

    def remove(self, name: str) -> None:
        """The claim is gone."""
        self.version += 1
        del self.claims[name]
        self.harness.claims.delete(("ns", name))

    def _pod_status(self, name: str, ops: list[Operation]) -> Json:
        """The pod, whose status is written as far as its API server keeps it."""
        pod = self.harness.written_pods[name]
        after = apply_patch(copy.deepcopy(pod), ops)
        if not self.harness.extends:
            after["status"].pop("extendedResourceClaimStatus", None)
        self.log.append(f"tell {name}")
        self.harness.pod_event(after)
        return after

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        if resource != RESOURCE_CLAIMS:
            return await super().get(resource, name, namespace)
        if name not in self.claims:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(self.claims[name])

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        if resource == PODS and "extendedResourceClaimStatus" in list(ops)[-1]["path"]:
            self.before_write(name, "tell")
            return self._pod_status(name, list(ops))
        if resource != RESOURCE_CLAIMS:
            return await super().patch(resource, name, ops, namespace, subresource=subresource)
        self.before_write(name, subresource)
        if name not in self.claims:
            raise NotFound(404, "NotFound", name)
        found = self._patched(name, list(ops))
        self._check(self.claims[name], found, subresource)
        self.writes.append((name, subresource))
        self.log.append(f"{subresource or 'metadata'} {name}")
        self.store(found)
        return copy.deepcopy(found)

    async def patch_unread(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes:
        return _encoded(await self.patch(resource, name, ops, namespace, subresource=subresource))

    def _patched(self, name: str, ops: list[Operation]) -> Json:
        stored = copy.deepcopy(self.claims[name])
        for op in ops:
            path = op["path"]
            if op["op"] == "test" and stored["metadata"]["uid"] != op["value"]:
                raise Invalid(422, "Invalid", "test failed")
            version = stored["metadata"]["resourceVersion"]
            if path.endswith("resourceVersion") and op["value"] != version:
                raise Conflict(409, "Conflict", "the object has been modified")
        return apply_patch(stored, ops)

    def _check(self, before: Json, after: Json, subresource: str | None) -> None:
        """What an API server refuses."""
        old, new = before.get("status") or {}, after.get("status") or {}
        if subresource is None:
            assert old == new, "the status is written by its subresource"
            return
        assert before["metadata"].get("finalizers") == after["metadata"].get("finalizers")
        if old.get("allocation") and new.get("allocation") not in (None, old["allocation"]):
            raise Invalid(422, "Invalid", "field is immutable")
        if new.get("reservedFor") and not new.get("allocation"):
            raise Invalid(422, "Invalid", "reservedFor without allocation")
        if len(new.get("reservedFor") or ()) > 256:
            raise Invalid(422, "Invalid", "too many")
        assert not new.get("allocation") or new.get("reservedFor"), "nobody's allocation"


class ClaimsHarness(Harness):
    """`pods`, `groups` and `claims` are the event handlers; `api` stores the claims.

    `extends` is false for an API server that knows no claims for extended resources.
    """

    api: ClaimsApi
    extends = True

    def __init__(
        self, *, timeout: float = 120.0, claims_refused: str = "", serves_claims: bool = True
    ) -> None:
        self.claims_refused, self.serves_claims = claims_refused, serves_claims
        super().__init__(timeout=timeout)

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> StateBuilder:
        self.selectors = Selectors()
        return StateBuilder(claim_changed, self.selectors.judge)

    def build_device_work(self) -> DeviceWork:
        allowance = self.builder.state.devices.allowance
        return DeviceWork(allowance, self.selectors, self.server_clock)

    def build_api(self) -> FakeApi:
        return ClaimsApi(self.builder, self)

    def build_handlers(self, expected: ExpectedPods | None = None) -> None:
        """The event handlers, which tell of no pods but those that exist without `expected`."""
        state = self.builder.state
        self.news = ClaimNews()
        self.pods = PodHandler(
            state, self.changed.set, claims_refused=self.claims_refused, expected=expected
        )
        self.claims = ResourceClaimHandler(state, self.changed.set, self.pods, self.news)
        self.groups = GroupHandler(POD_GROUP, state, self.changed.set, self.observed, self.pods)
        self.slices = ResourceSliceHandler(state, self.changed.set)
        self.classes = DeviceClassHandler(state, self.changed.set, self.pods)
        self.templates = ClaimTemplateHandler(self.changed.set, self.pods)
        if self.serves_claims:
            self.pods.serve_claims(templates=True)
        self.written_pods: dict[str, Json] = {}

    def build_allocations(self) -> tuple[Allocations, ClaimReleases]:
        state = self.builder.state
        if self.expected is None:
            self.build_handlers()
        clock, access = self.server_clock, ClaimAccess(self.api, self.claims, self.freeze)
        extended = ExtendedClaims(self.api, access, state, self.pods, clock)
        self.finalizers = ClaimFinalizers(access, state, self.news)
        allocations = Allocations(
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
        """A class, which stands for the extended resource if there is one."""
        selectors = [{"cel": {"expression": text}} for text in expressions]
        spec = {"selectors": selectors, "extendedResourceName": resource}
        body = {"metadata": {"name": name}, "spec": spec}
        self.classes.upsert(decode_device_class(_encoded(body)))

    def devices(self, node: str, devices: int | list[Json], *, generation: int = 1) -> None:
        """The node's slice, with so many plain devices or these."""
        listed = (
            [{"name": f"d{index}"} for index in range(devices)]
            if isinstance(devices, int)
            else devices
        )
        self.slice(node, generation=generation, devices=listed)

    def slice(
        self, node: str, part: str = "", *, generation: int = 1, count: int = 1, **content: Any
    ) -> None:
        """A part of the node's pool, which has `count` slices."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": count}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
        body = {"metadata": {"name": f"slice-{node}{part}"}, "spec": spec}
        self.slices.upsert(decode_resource_slice(_encoded(body)))

    def claim(
        self, name: str, *, count: int = 1, owner: str = "", namespace: str = "ns", **request: Any
    ) -> Json:
        """A claim for so many devices; with an owner's name it is that pod's own."""
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
        """A pod with `own` claims from a template, named NAME-0 and so on, and `shared` ones.

        Unless `named`, its status does not tell of its own ones yet.
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
        self.written_pods[pod["metadata"]["name"]] = pod
        self.pods.upsert(decode_pod(_encoded(pod)))

    def gang(self, name: str, pods: int, *, claims: bool = True) -> list[str]:
        """A gang of pods with a claim of their own each; their names."""
        self.observe(self.builder.gang(name, pods))
        names = [f"{name}-{at}" for at in range(pods)]
        for each in names:
            self.pod(each, name)
            if claims:
                self.claim(f"{each}-0", owner=each)
        return names

    def delete_pod(self, name: str) -> None:
        self.pods.delete(("ns", name))
        self.written_pods.pop(name)

    def held(self) -> dict[str, list[str]]:
        """The devices of each allocated claim, as the API server has it."""
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
        """Another scheduler allocates a claim; `more` are fields of its result."""
        claim = json.loads(json.dumps(self.api.claims[name]))
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
