"""ResourceClaims whose devices provide extended resources of pods (KEP-5004).

The scheduler creates them. A pod's claim asks for what its node does not offer itself, so it is
created after the node is decided and before its allocation is written. Then the pod's status names
it, which the kubelet reads. Its name depends on the pod only, so a later leader finds a claim that
an earlier one created. It is deleted if its pod is not bound after all. Otherwise it is deleted
with the pod, which owns it.
"""

from __future__ import annotations

from typing import Final

from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, Invalid, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from kube.leader.election import Fence
from scheduler.claims.claim_client import ClaimClient, UnusableError
from scheduler.claims.claim_patches import FINALIZER, claim_spec
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.extended_devices import RequestMapping, mappings
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.extended_resources import claim_key
from scheduler.decoding.pod_claims import PodClaims
from scheduler.support.retry import retry

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim for extended resources, with the value "true"."""

_STATUS: Final = "/status/extendedResourceClaimStatus"

_OFF: Final = (
    "the API server does not keep status.extendedResourceClaimStatus of pods: its feature gate"
    " DRAExtendedResource is off, so no device can stand for an extended resource"
)

_KEPT: Final = (
    "the pod's status names resourceclaim {name}, which an earlier attempt created and which is"
    " gone, and the API server does not remove the name (Kubernetes 1.37): recreate the pod"
)

_FIXED: Final = (
    "the pod's status names other requests of resourceclaim {name}, and the API server does not"
    " change them: recreate the pod"
)


class ExtendedClaims:
    """Creates and deletes these claims, and writes them to the status of pods.

    `pods` has what the pods request.
    """

    def __init__(
        self, api: Client, access: ClaimClient, state: State, pods: PodClaims, clock: Clock
    ) -> None:
        self._api = api
        self._access = access
        self._state = state
        self._devices = state.devices
        self._pods = pods
        self._clock = clock

    def owner(self, key: ClaimKey) -> Pod | None:
        """Return the pod of such a claim; None for other claims, and if the pod is deleted."""
        claim = self._devices.claims.get(key)
        pod = self._state.pods.get(claim.owner) if claim is not None and claim.owner else None
        return pod if pod is not None and claim_key(pod.info) == key else None

    def unneeded(self, key: ClaimKey, pod: Pod) -> bool:
        """True if the assumed pod needs no such claim, because its node offers what it requests."""
        wants = pod.info.requirements
        if not wants.extended or claim_key(pod.info) != key or key in self._devices.assumed:
            return False
        node = self._state.nodes.infos[pod.row]
        offered = node.allocatable if node is not None else {}
        requested = (name for each in wants.extended for name, _, _ in each.amounts)
        return all(offered.get(name, 0) > 0 for name in requested)

    def is_missing(self, key: ClaimKey, pod: Pod) -> bool:
        """True if the claim of the assumed pod is one of these and does not exist."""
        return key not in self._devices.claims and claim_key(pod.info) == key

    async def create_claim(self, key: ClaimKey, pod: Pod) -> None:
        """Create the claim of the assumed pod. Raises KubeError and UnusableError."""
        allocation = self._devices.assumed.get(key)
        if allocation is None or allocation.ask is None:
            raise UnusableError(f"claim {key[1]} got deallocated in the meantime")
        try:
            await self._access.create(_claim(key, pod, allocation))
        # An earlier leader created it, or this one did and the watch has not delivered it.
        except AlreadyExists:
            await self._access.read_existing(key, pod.info.uid)
        except Invalid as error:
            raise UnusableError(str(error)) from None

    async def publish_name(self, key: ClaimKey, pod: Pod, deadline: float, fence: Fence) -> None:
        """Write the name of this pod's claim to its status, or remove it if it needs no claim.

        Raises KubeError and UnusableError.
        """
        info = pod.info
        claim, (said, mapped) = self._devices.claims.get(key), self._pods.claim_in_status(info.uid)
        uses = mappings(self._pods.containers_of(info.uid), claim.ask) if claim is not None else []
        # A claim of the same name may have served an earlier node, which lacked other resources.
        if claim is not None and (said, mapped) != (key[1], tuple(sorted(uses))):
            # The patch tests the UID: another pod may have the name by now.
            status = _status(key, uses)
            patch = PatchBuilder().of_uid(info.uid).add(_STATUS, status)
            updated = await self._patched(pod, patch, deadline, fence)
            # An API server without the feature drops the field without an error; the kubelet would
            # start the pod without its devices.
            if (updated.get("status") or {}).get("extendedResourceClaimStatus") != status:
                raise UnusableError(_FIXED.format(name=said) if said else _OFF)
        # An earlier attempt had another node, whose missing resource the claim provided.
        elif claim is None and said:
            patch = PatchBuilder().of_uid(info.uid).remove(_STATUS)
            updated = await self._patched(pod, patch, deadline, fence)
            if (updated.get("status") or {}).get("extendedResourceClaimStatus"):
                # The kubelet would wait for the claim, which is gone.
                raise UnusableError(_KEPT.format(name=said))

    async def delete(self, key: ClaimKey) -> None:
        """Delete a claim that has no allocation. Raises KubeError."""
        seen = self._access.claims.observed[key]
        # The scheduler added it. With it the deletion would have to wait for others.
        if FINALIZER in seen.finalizers:
            at = seen.finalizers.index(FINALIZER)
            patch = PatchBuilder().of_uid(seen.uid).at_version(str(seen.version))
            await self._access.patch(key, patch.remove(f"/metadata/finalizers/{at}"), None)
        await self._access.delete(key, seen.uid)

    async def _patched(self, pod: Pod, patch: PatchBuilder, deadline: float, fence: Fence) -> Json:
        """Patch the pod's status, and return the pod from the response."""
        info, responses = pod.info, list[Json]()

        async def write() -> None:
            responses.append(
                await self._api.patch(PODS, info.name, patch, info.namespace, subresource="status")
            )

        try:
            if not await retry(write, fence, self._clock, until=deadline):
                raise UnusableError("the lease is lost")
        except NotFound:
            raise UnusableError(f"pod {info.name} is gone") from None
        return responses[-1]


def _claim(key: ClaimKey, pod: Pod, allocation: Allocation) -> Json:
    """Return the claim to create, with the finalizer that it would get next."""
    if allocation.ask is None:
        raise AssertionError("only claims for extended resources are made here")
    # Without blockOwnerDeletion, which would need a right to update pods/finalizers.
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


def _status(key: ClaimKey, uses: list[RequestMapping]) -> Json:
    return {
        "resourceClaimName": key[1],
        "requestMappings": [
            {"containerName": container, "resourceName": resource, "requestName": request}
            for container, resource, request in uses
        ],
    }
