"""The writer of ProvisioningRequests and their PodTemplates.

PodTemplates are created before their request, as Cluster Autoscaler gives up a request without
them. They are also deleted before it: whenever this is interrupted, the request still names what is
left.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from api.constants import EVENT_NAME_TAKEN
from api.ownership import OwnerId, Ownership, created_for, ownership
from api.provisioning import (
    Root,
    pod_template,
    request_object,
    shape_of,
    template_name,
    template_object,
)
from controllers.cache.capacity_requests import POD_TEMPLATES, REQUESTS, CapacityRequest
from controllers.provisioning.waiting_roots import WaitingPods
from controllers.runtime.controller import BlockedError, RequeueError, Writer
from kube.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from kube.client.meta import Json, ObjectMeta, decode_partial
from kube.client.resources import PODS, Resource

_SOON_SECONDS: Final = 0.5
"""Seconds until the next attempt if pods change in the meantime."""

_DELETION_SECONDS: Final = 5.0
"""Seconds until the next attempt if an object of the name is being deleted."""

_UNKNOWN_SECONDS: Final = 60.0
"""Seconds until the next attempt if a request exists that the cache lacks."""


class CapacityWriter:
    """The writer of requests, which never touches other owners' objects of the same name."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def create_request(
        self,
        root: Root,
        asked: str,
        sets: Mapping[str, int],
        waiting: WaitingPods,
        attempt: int,
    ) -> str:
        """Create the PodTemplate of each shape, then the request; return its UID.

        Raises RequeueError, BlockedError, kube errors.
        """
        # The caches do not have complete pods, so a live pod of each shape is read.
        for shape, (namespace, name) in waiting.samples.items():
            try:
                pod = await self._writer.get(PODS, name, namespace)
            except NotFound:
                raise RequeueError("the pods are changing", _SOON_SECONDS) from None
            # The pod was replaced by one with another spec since the caches were read.
            if shape_of(pod) != shape:
                raise RequeueError("the pods are changing", _SOON_SECONDS)
            await self._create_template(root, shape, pod_template(pod))
        for shape in waiting.templates.keys() - waiting.samples.keys():
            await self._create_template(root, shape, waiting.templates[shape])
        try:
            made = await self._writer.create(REQUESTS, request_object(root, asked, sets, attempt))
        except AlreadyExists as error:
            await self._check_ours(REQUESTS, root, root.request)
            # The cache is behind, or the request is undecodable and was skipped.
            raise RequeueError("the request is not in the cache", _UNKNOWN_SECONDS) from error
        except ApiError as error:
            # After any other error the request may exist, or may be created yet, and needs its
            # templates.
            if error.refused:
                for name in sorted(sets):
                    await self._delete_template(root.owner_id, root.namespace, name)
            raise
        return str(made["metadata"]["uid"])

    async def _create_template(self, root: Root, shape: bytes, content: Json) -> None:
        template = template_object(root, template_name(root, shape), content)
        try:
            await self._writer.create(POD_TEMPLATES, template)
        except AlreadyExists:
            await self._check_ours(POD_TEMPLATES, root, template["metadata"]["name"])

    async def delete(self, found: CapacityRequest, kept: Mapping[str, int]) -> None:
        """Delete the PodTemplates of a request except `kept`, then the request."""
        meta = found.metadata
        owner = created_for(meta)
        for name in sorted(found.pod_sets.keys() - kept.keys()):
            await self._delete_template(owner, meta.namespace, name)
        try:
            await self._writer.delete(REQUESTS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return

    async def _delete_template(self, owner: OwnerId | None, namespace: str, name: str) -> None:
        """Delete a PodTemplate that was created for the root."""
        try:
            meta = await self._live(POD_TEMPLATES, name, namespace)
            # A user may have written the request, and named another owner's PodTemplate in it.
            if created_for(meta) == owner:
                await self._writer.delete(POD_TEMPLATES, name, namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return

    async def _check_ours(self, resource: Resource, root: Root, name: str) -> None:
        """Check that an object of a wanted name was created for the root.

        Raises BlockedError, or RequeueError for one that is being deleted.
        """
        meta = await self._live(resource, name, root.namespace)
        found = ownership(meta, root.owner_id)
        if found is Ownership.LEAVING:
            raise RequeueError(f"{resource.kind} {name} is being deleted", _DELETION_SECONDS)
        if found is Ownership.FOREIGN:
            raise BlockedError(
                EVENT_NAME_TAKEN,
                f"{resource.kind} {name} exists and was not created for this {root.kind.kind}: "
                "delete it, and Muster requests the capacity",
            )

    async def _live(self, resource: Resource, name: str, namespace: str) -> ObjectMeta:
        live = await self._writer.get(resource, name, namespace)
        return decode_partial(msgspec.json.encode(live)).metadata
