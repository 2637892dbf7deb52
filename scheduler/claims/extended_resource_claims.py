"""The ResourceClaims whose devices stand for extended resources of pods (KEP-5004).

Nobody else makes them: a pod's claim asks for what its node does not offer itself, so it is made
once it is decided which node that is, before its allocation is written. Then the pod's status names
it, which the kubelet goes by. Its name follows from the pod, so a claim that was begun is found
again. It is deleted if its pod is not bound after all, and goes with the pod, which owns it.
"""

from __future__ import annotations

from typing import Final

from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, Invalid, NotFound
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimAccess, UnusableError
from scheduler.claims.claim_patches import FINALIZER, claim_spec
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation, DeviceClaimInfo
from scheduler.core.values.extended_devices import mappings
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.extended_resources import claim_key
from scheduler.support.ports import ClaimApi, ContainersOfPods
from scheduler.support.retry import retry

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""On a claim for extended resources, with the value "true"."""

_STATUS: Final = "/status/extendedResourceClaimStatus"

_OFF: Final = (
    "the API server does not keep status.extendedResourceClaimStatus of pods: its feature gate"
    " DRAExtendedResource is off, so no device can stand for an extended resource"
)


class ExtendedClaims:
    """Makes and deletes them, and tells pods of them. `pods` has what the pods request."""

    def __init__(
        self, api: ClaimApi, access: ClaimAccess, state: State, pods: ContainersOfPods, clock: Clock
    ) -> None:
        self._api = api
        self._access = access
        self._state = state
        self._devices = state.devices
        self._pods = pods
        self._clock = clock

    def owner(self, key: ClaimKey) -> Pod | None:
        """The pod that the claim was made for; None if it is no such claim, or its pod is gone."""
        claim = self._devices.claims.get(key)
        pod = self._state.pods.get(claim.owner) if claim is not None and claim.owner else None
        return pod if pod is not None and claim_key(pod.info) == key else None

    def unneeded(self, key: ClaimKey, pod: Pod) -> bool:
        """Whether the assumed pod needs no such claim, as its node offers what it requests."""
        wants = pod.info.requirements
        if not wants.extended or claim_key(pod.info) != key or key in self._devices.assumed:
            return False
        node = self._state.nodes.infos[pod.row]
        offered = node.allocatable if node is not None else {}
        requested = (name for each in wants.extended for name, _, _ in each.amounts)
        return all(offered.get(name, 0) > 0 for name in requested)

    def lacks(self, key: ClaimKey, pod: Pod) -> bool:
        """Whether the claim of the assumed pod is one of these and has to be made."""
        return key not in self._devices.claims and claim_key(pod.info) == key

    async def make(self, key: ClaimKey, pod: Pod) -> None:
        """Create the claim of the assumed pod. Raises KubeError and UnusableError."""
        allocation = self._devices.assumed.get(key)
        if allocation is None or allocation.ask is None:
            raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
        try:
            await self._access.create(_claim(key, pod, allocation))
        except AlreadyExists:
            await self._access.take_over(key, pod.info.uid)
        except Invalid as error:
            raise UnusableError(str(error)) from None

    async def tell(self, key: ClaimKey, pod: Pod, deadline: float, fence: Fence) -> None:
        """Have the pod's status name the claim if it is one of these; none if it needs none.

        Raises KubeError and UnusableError.
        """
        info = pod.info
        if claim_key(info) != key:
            return
        claim, said = self._devices.claims.get(key), self._pods.claim_said(info.uid)
        if claim is not None and said != key[1]:
            status = _status(claim, self._pods, info.uid)
            patch = PatchBuilder().of_uid(info.uid).add(_STATUS, status)
            answer = await self._patched(pod, patch, deadline, fence)
            if (answer.get("status") or {}).get("extendedResourceClaimStatus") != status:
                raise UnusableError(_OFF)
        elif claim is None and said:
            patch = PatchBuilder().of_uid(info.uid).remove(_STATUS)
            await self._patched(pod, patch, deadline, fence)

    async def delete(self, key: ClaimKey) -> None:
        """Delete a claim that has no allocation. Raises KubeError."""
        seen = self._access.claims.observed[key]
        if FINALIZER in seen.finalizers:
            at = seen.finalizers.index(FINALIZER)
            patch = PatchBuilder().of_uid(seen.uid).at_version(str(seen.version))
            await self._access.patch(key, patch.remove(f"/metadata/finalizers/{at}"), None)
        await self._access.delete(key, seen.uid)

    async def _patched(self, pod: Pod, patch: PatchBuilder, deadline: float, fence: Fence) -> Json:
        """The pod as it is after the write."""
        info, answers = pod.info, list[Json]()

        async def write() -> None:
            answers.append(
                await self._api.patch(PODS, info.name, patch, info.namespace, subresource="status")
            )

        try:
            if not await retry(write, fence, self._clock, until=deadline):
                raise UnusableError("the lease is lost")
        except NotFound:
            raise UnusableError(f"pod {info.name} is gone") from None
        return answers[-1]


def _claim(key: ClaimKey, pod: Pod, allocation: Allocation) -> Json:
    """The claim, with the finalizer that it would get next."""
    if allocation.ask is None:
        raise AssertionError("only claims for extended resources are made here")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.info.name, "uid": pod.info.uid}
    metadata = {
        "name": key[1],
        "namespace": key[0],
        "annotations": {ANNOTATION: "true"},
        "finalizers": [FINALIZER],
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": claim_spec(allocation.ask),
    }


def _status(claim: DeviceClaimInfo, pods: ContainersOfPods, uid: str) -> Json:
    uses = mappings(pods.containers_of(uid), claim.ask)
    return {
        "resourceClaimName": claim.key[1],
        "requestMappings": [
            {"containerName": container, "resourceName": resource, "requestName": request}
            for container, resource, request in uses
        ],
    }
