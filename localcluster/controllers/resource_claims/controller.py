"""The resource claim controller: it creates claims from templates and releases unused ones.

Schedulers allocate. This controller creates claims, names them in the pods' status, and removes
pods that will not run again from their claims' consumers. A claim without consumers then loses its
allocation and its finalizer.
"""

from collections.abc import Iterable
from typing import Literal

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import CLAIM_TEMPLATES, CLAIMS, PODS
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.event_recorder import EventRecorder, Note
from localcluster.controllers.base.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    uid_of,
)
from localcluster.controllers.base.workqueue import Loop
from localcluster.controllers.resource_claims import claims

ClaimKey = tuple[Literal["pod", "claim"], Key]
BY_TEMPLATE = "template"
BY_OWNER = "owner"
COMPONENT = "resource_claim"


def _templates(pod: Obj) -> Iterable[Key]:
    names = {one.get("resourceClaimTemplateName") for one in claims.entries_of(pod)}
    return [(pod["metadata"]["namespace"], name) for name in names if name]


def _owner(claim: Obj) -> Iterable[str]:
    owner = controller_of(claim)
    return (owner["uid"],) if owner else ()


def _told(entry: str, claim: str | None) -> Obj:
    return {"name": entry, **({"resourceClaimName": claim} if claim is not None else {})}


class ResourceClaimController:
    """Controller that creates claims for pods, and releases claims that pods no longer use."""

    def __init__(self, client: CachedClient, clock: Clock, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        # By pod UID, the claims created for its entries. As in Kubernetes, whose controller trusts
        # its own writes for an hour, a claim deleted by someone else is not recreated.
        self._made: dict[str, dict[str, str]] = {}
        self.loop: Loop[ClaimKey] = Loop("resource-claims", clock, self._reconcile)
        client[PODS].add_index(claims.BY_CLAIM, claims.by_claim)
        client[PODS].add_index(BY_TEMPLATE, _templates)
        client[CLAIMS].add_index(BY_OWNER, _owner)
        client[PODS].subscribe(self._pod_changed)
        client[CLAIMS].subscribe(self._claim_changed)
        client[CLAIM_TEMPLATES].subscribe(self._template_changed)

    # Events

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old or {}
        if new is None:
            self._made.pop(uid_of(pod), None)
        if new is None or claims.needs_no_claims(new):
            for key in claims.claim_keys(pod):
                self.loop.queue.add(("claim", key))
        if new is not None and self._needs_work(new):
            self.loop.queue.add(("pod", key_of(new)))

    def _claim_changed(self, old: Obj | None, new: Obj | None) -> None:
        key = key_of(new or old or {})
        if new is not None:
            self.loop.queue.add(("claim", key))
        for pod in self._client[PODS].by_index(claims.BY_CLAIM, key):
            if self._needs_work(pod):
                self.loop.queue.add(("pod", key_of(pod)))

    def _template_changed(self, _old: Obj | None, new: Obj | None) -> None:
        if new is None:
            return
        for pod in self._client[PODS].by_index(BY_TEMPLATE, key_of(new)):
            if self._needs_work(pod):
                self.loop.queue.add(("pod", key_of(pod)))

    def _needs_work(self, pod: Obj) -> bool:
        if is_deleting(pod) or claims.needs_no_claims(pod):
            return False
        return any(
            self._misses_claim(pod, entry) or self._unreserved(pod, entry) is not None
            for entry in claims.entries_of(pod)
        )

    def _misses_claim(self, pod: Obj, entry: Obj) -> bool:
        """Return True if the entry's claim must be created, or named in the pod's status."""
        if entry.get("resourceClaimTemplateName") is None:
            return False
        if claims.waits_for_claim(pod, entry):
            return True
        name = claims.claim_name(pod, entry)
        if name is None:
            return False
        claim = self._client[CLAIMS].get((pod["metadata"]["namespace"], name))
        return claim is None or not claims.is_of(claim, pod, entry)

    def _unreserved(self, pod: Obj, entry: Obj) -> Obj | None:
        """Return the entry's allocated claim if a pod with a node lacks the reservation."""
        name = claims.claim_name(pod, entry)
        if name is None or not pod["spec"].get("nodeName"):
            return None
        claim = self._client[CLAIMS].get((pod["metadata"]["namespace"], name))
        if claim is None or not claims.is_of(claim, pod, entry) or not claims.is_allocated(claim):
            return None
        return None if claims.is_reserved_for(claim, pod) else claim

    # Reconciling

    async def _reconcile(self, key: ClaimKey) -> float | None:
        what, where = key
        if what == "pod":
            await self._reconcile_pod(where)
        else:
            await self._reconcile_claim(where)
        return None

    async def _reconcile_pod(self, key: Key) -> None:
        pod = self._client[PODS].get(key)
        if pod is None or not self._needs_work(pod):
            return
        made: dict[str, str] = {}
        for entry in claims.entries_of(pod):
            if self._misses_claim(pod, entry):
                name = await self._make(pod, entry)
                if name is None:
                    return
                made[entry["name"]] = name
        if made:
            await self._tell(pod, made)
        for entry in claims.entries_of(pod):
            claim = self._unreserved(pod, entry)
            if claim is not None:
                await self._reserve(claim, pod)

    async def _make(self, pod: Obj, entry: Obj) -> str | None:
        """Return the name of the entry's claim, creating it if needed; None without template."""
        made = self._made.setdefault(uid_of(pod), {})
        if entry["name"] in made:
            return made[entry["name"]]
        for claim in self._client[CLAIMS].by_index(BY_OWNER, uid_of(pod)):
            if annotations_of(claim).get(claims.ENTRY_ANNOTATION) == entry["name"]:
                return str(claim["metadata"]["name"])
        namespace, wanted = pod["metadata"]["namespace"], entry["resourceClaimTemplateName"]
        template = self._client[CLAIM_TEMPLATES].get((namespace, wanted))
        if template is None:  # the template's arrival wakes the pod
            text = f'resourceclaimtemplate.resource.k8s.io "{wanted}" not found'
            self._failed(pod, entry, f'resource claim template "{wanted}": {text}')
            return None
        claim = claims.from_template(template, pod, entry["name"])
        try:
            stored = await self._client.create(CLAIMS, namespace, claim)
        except StatusError as error:
            self._failed(pod, entry, f"create ResourceClaim : {error.message}")
            raise
        made[entry["name"]] = stored["metadata"]["name"]
        return made[entry["name"]]

    def _failed(self, pod: Obj, entry: Obj, why: str) -> None:
        text = f"PodResourceClaim {entry['name']}: {why}"
        note = Note("Warning", "FailedResourceClaimCreation", text)
        self._recorder.record(COMPONENT, PODS, pod, note)

    async def _tell(self, pod: Obj, made: dict[str, str]) -> None:
        """Write the names of the created claims into the pod's status."""

        def edit(present: Obj) -> Obj | None:
            names = {**claims.statuses_of(present), **made}
            told = [_told(entry, name) for entry, name in names.items()]
            status = {**(present.get("status") or {}), "resourceClaimStatuses": told}
            return None if status == present.get("status") else {**present, "status": status}

        await self._client.change(PODS, key_of(pod), uid_of(pod), edit, subresource="status")

    async def _reserve(self, claim: Obj, pod: Obj) -> None:
        def edit(present: Obj) -> Obj | None:
            if not claims.is_allocated(present) or claims.is_reserved_for(present, pod):
                return None
            reserved = [*claims.consumers_of(present), claims.consumer(pod)]
            return claims.with_status(present, reserved_for=reserved, keep_allocation=True)

        key = key_of(claim)
        await self._client.change(CLAIMS, key, uid_of(claim), edit, subresource="status")

    async def _reconcile_claim(self, key: Key) -> None:
        claim = self._client[CLAIMS].get(key)
        if claim is None:
            return
        gone = [one["uid"] for one in claims.pod_consumers(claim) if await self._is_gone(key, one)]
        left = [one for one in claims.consumers_of(claim) if one["uid"] not in gone]
        if gone:
            claim = await self._give_back(claim, left)
        elif is_deleting(claim) and not left and claims.is_protected(claim):
            if claims.is_allocated(claim):
                claim = await self._give_back(claim, left)
            else:
                claim = await self._client.update(CLAIMS, claims.unprotected(claim))
        if not left:
            await self._delete_unused(claim)

    async def _is_gone(self, claim: Key, one: Obj) -> bool:
        """Return True if a consumer will not run again, or if another pod has its name now."""
        key = (claim[0], one["name"])
        pod = self._client[PODS].get(key) or await self._client.get(PODS, key)
        return pod is None or uid_of(pod) != one["uid"] or claims.needs_no_claims(pod)

    async def _give_back(self, claim: Obj, left: list[Obj]) -> Obj:
        """Remove consumers; with the last one, remove the allocation and the finalizer."""
        keep = bool(left) or not claims.is_protected(claim)
        wanted = claims.with_status(claim, reserved_for=left, keep_allocation=keep)
        claim = await self._client.update(CLAIMS, wanted, subresource="status")
        if claims.is_protected(claim) and not claims.is_allocated(claim):
            claim = await self._client.update(CLAIMS, claims.unprotected(claim))
        return claim

    async def _delete_unused(self, claim: Obj) -> None:
        """Delete a claim that was created for a pod that will not run again."""
        owner = claims.owning_pod(claim)
        if owner is None:
            return
        pod = self._client[PODS].get((claim["metadata"]["namespace"], owner["name"]))
        if pod is not None and (uid_of(pod) != owner["uid"] or claims.needs_no_claims(pod)):
            await self._client.delete(CLAIMS, claim)
