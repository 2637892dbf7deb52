"""ResourceClaims of pods, and their requests, which are part of what a pod requires.

A pod's requirements depend on its claims. So they are computed again when one of the claims
appears, changes or is deleted. Until all of them exist the pod waits, as with a scheduling gate.

A pod also uses devices if it requests extended resources that a device class maps. The scheduler
creates the claim for these after it has decided the pod's node. A claim that exists earlier comes
from an earlier attempt: with an allocation it is used, without one it is deleted, because it may
request what another node lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from kube.client.meta import Key
from scheduler.core.devices.table import DeviceTable
from scheduler.core.groups.forest import Pod as KnownPod
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceClaimInfo
from scheduler.core.values.extended_devices import ContainerDevices, RequestMapping, resources_of
from scheduler.core.values.model import POD_GROUP, ClaimKey, GroupConsumer, PodInfo, Requirements
from scheduler.decoding import claim_messages
from scheduler.decoding.device_objects import PodClaimEntry, decode_pod_claim
from scheduler.decoding.extended_resources import claim_key, containers_of
from scheduler.decoding.group_claims import GroupClaims, NativeGroupClaims
from scheduler.decoding.limits import excess_of_claims
from scheduler.decoding.objects import GroupObject, MappedRequest, Pod, PodSpec

NOT_SERVED: Final = "resourceClaims (resource.k8s.io/v1 is not served, or may not be read)"

_NO_TEMPLATE: Final = "-"
"""Template of the claim that the scheduler creates for a pod's extended resources."""

MOST_NAMING: Final = 1024
"""Pods that wait for one claim and are evaluated when it changes; others wait for one of these to
leave. 256 pods can use a claim at once."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the spec: the name of its claim, empty until that is created.

    A claim of the pod's `own` comes from a template.
    """

    name: str
    claim: str
    template: str = ""

    @property
    def own(self) -> bool:
        return bool(self.template)


@dataclass(frozen=True, slots=True)
class _Uses:
    """The entries of a pod that need a claim, or the reason why they are not understood.

    `claims` is true if the spec has any entries. `extended` are the containers of a waiting pod
    that request extended resources, `created` the name of their claim in the status and `mapped`
    its requests there. `keys` are the claims whose changes concern the pod.
    """

    entries: tuple[_Entry, ...]
    problem: str = ""
    claims: bool = False
    extended: tuple[ContainerDevices, ...] = ()
    created: str = ""
    mapped: tuple[RequestMapping, ...] = ()
    keys: tuple[ClaimKey, ...] = ()


class PodClaims:
    """The claims of the pods that have some; other pods cost nothing.

    `problems` has the claims whose spec is not understood, with the reason. Pods with claims are
    refused until `serve` is called, and also after that if `refused` has a reason.
    """

    def __init__(
        self, table: DeviceTable, problems: Mapping[ClaimKey, str], refused: str = ""
    ) -> None:
        self._why_refused = refused or NOT_SERVED
        self._table = table
        self._problems = problems
        self._uses: dict[str, _Uses] = {}
        self._requirements: dict[str, Requirements] = {}
        # A dict as an ordered set: the first MOST_NAMING pods of a claim count.
        self._naming: dict[ClaimKey, dict[str, None]] = {}
        self._of_groups: dict[Key, GroupClaims] = {}
        self._of_native_groups: dict[Key, NativeGroupClaims] = {}
        self._requesting: dict[str, dict[str, None]] = {}

    def serve(self) -> None:
        """Record that the API server serves resource.k8s.io/v1 and all claims are known."""
        # A disabled feature gate remains the reason.
        if self._why_refused == NOT_SERVED:
            self._why_refused = ""

    def note(self, pod: Pod, info: PodInfo) -> list[str]:
        """Record the claims of a pod; `info` has its other requirements.

        Return the UIDs of pods that have to be evaluated because of it.
        """
        uid, requirements = info.uid, info.requirements
        # For a bound pod these are decided: its node offers them, or its status names the claim.
        waits = info.ours and not info.node
        extended = containers_of(pod, requirements.requests) if waits else ()
        created = pod.status.extended_resource_claim_status
        if not (pod.spec.resource_claims or extended or created):
            return self.forget(uid)
        uses = _uses_of(pod)
        if extended or created:
            name = created.resource_claim_name if created else ""
            mapped = _mapped(created.request_mappings) if created and waits else ()
            keys = (*uses.keys, claim_key(info)) if extended else uses.keys
            uses = replace(uses, extended=extended, created=name, mapped=mapped, keys=keys)
        self._requirements[uid] = requirements
        # Most events of a pod change nothing here.
        before = self._uses.get(uid)
        if before == uses:
            return []
        promoted = self._leave(uid, before, uses.keys) if before is not None else []
        self._uses[uid] = uses
        for key in uses.keys:
            # The pod keeps its rank among the pods of a claim that it names already.
            self._naming.setdefault(key, {}).setdefault(uid)
        for resource in resources_of(extended):
            self._requesting.setdefault(resource, {})[uid] = None
        return promoted

    def forget(self, uid: str) -> list[str]:
        """Drop a deleted pod. Return the UIDs of pods that have to be evaluated because of it."""
        uses = self._uses.pop(uid, None)
        self._requirements.pop(uid, None)
        return self._leave(uid, uses) if uses is not None else []

    def _leave(self, uid: str, uses: _Uses, kept: tuple[ClaimKey, ...] = ()) -> list[str]:
        """Remove the pod from the pods of its resources and of its claims that it does not keep."""
        promoted: list[str] = []
        for resource in resources_of(uses.extended):
            requesting = self._requesting[resource]
            del requesting[uid]
            if not requesting:
                del self._requesting[resource]
        for key in uses.keys:
            naming = self._naming.get(key)
            if naming is None or uid not in naming or key in kept:
                continue
            full = len(naming) > MOST_NAMING
            del naming[uid]
            if not naming:
                del self._naming[key]
            elif full:
                # A pod beyond the limit moves up.
                promoted += islice(naming, MOST_NAMING - 1, MOST_NAMING)
        return promoted

    def all(self) -> list[str]:
        """Return the UIDs of all pods with claims."""
        return list(self._uses)

    def has(self, uid: str) -> bool:
        """True if the pod has claims."""
        return uid in self._uses

    def requesting(self, resource: str) -> list[str]:
        """Return the UIDs of the waiting pods that request the extended resource."""
        return list(self._requesting.get(resource, ()))

    def containers_of(self, uid: str) -> tuple[ContainerDevices, ...]:
        """Return the containers of a waiting pod that request extended resources."""
        uses = self._uses.get(uid)
        return () if uses is None else uses.extended

    def claim_in_status(self, uid: str) -> tuple[str, tuple[RequestMapping, ...]]:
        """Return name and requests of the claim for extended resources in the pod's status."""
        uses = self._uses.get(uid)
        return ("", ()) if uses is None else (uses.created, uses.mapped)

    def naming(self, key: ClaimKey) -> list[str]:
        """Return the UIDs of the pods that a change of the claim concerns."""
        return list(islice(self._naming.get(key, ()), MOST_NAMING))

    def on_group_changed(self, key: Key, group: GroupObject | None) -> bool:
        """Record a PodGroup (None: deleted). True if its pods with claims have to be evaluated."""
        before, now = self._of_groups.pop(key, None), GroupClaims.of(group)
        if now is not None:
            self._of_groups[key] = now
        return before != now

    def on_native_group_changed(self, key: Key, group: GroupObject | None) -> bool:
        """Record a native PodGroup. True if its pods with claims have to be evaluated."""
        before, now = self._of_native_groups.pop(key, None), NativeGroupClaims.of(group)
        if now is not None:
            self._of_native_groups[key] = now
        return before != now

    def applied(self, info: PodInfo, known: KnownPod | None) -> PodInfo:
        """Return the pod with the requirements of its claims as they are now.

        A pod that is being bound keeps its requests, because its devices are assumed.
        """
        uses = self._uses.get(info.uid)
        if uses is None:
            return info
        if info.node:
            # A bound pod requests nothing, but it is a consumer of its claims.
            keys = _keys(info, uses)
            return replace(info, device_claims=keys, unclaimed="") if keys else info
        if not info.ours:
            return info
        # Once its own claim is written it counts as allocated, and the shape would change.
        if known is not None and known.assumed:
            wants, keys = known.info.requirements, known.info.device_claims
            return self._with(info, wants.asks, keys, wants.extended)
        resource = next(filter(self._table.extended.class_of, resources_of(uses.extended)), "")
        refused = uses.problem or self._why_refused
        if refused and (uses.claims or resource):
            return self._refused(info, refused if uses.claims else f"{resource} by {refused}")
        return self._asking(info, uses, resource)

    def _asking(self, info: PodInfo, uses: _Uses, resource: str) -> PodInfo:
        """Return the pod with the requests of its claims, and of a mapped extended `resource`."""
        asks: list[Ask | ClaimKey] = []
        keys: list[ClaimKey] = []
        consumer = self._group_consumer(info, uses)
        if consumer != info.consumer:
            info = replace(info, consumer=consumer)
        for entry in uses.entries:
            key = (info.namespace, entry.claim)
            claim = self._table.claims.get(key)
            shared = consumer if consumer is not None and key in consumer.claims else None
            lack = self._claim_problem(info, entry, key, claim, shared)
            if lack or claim is None:
                return replace(self._with(info, (), ()), unclaimed=lack)
            if problem := self._problems.get(key):
                return self._refused(info, f'ResourceClaim "{entry.claim}", which {problem}')
            # Two entries may name one claim, which counts once.
            if key not in keys:
                # An own claim without an allocation counts by spec: equal pods share a shape.
                own = entry.own and shared is None and claim.allocation is None
                asks.append(claim.ask if own else key)
                keys.append(key)
        if not uses.extended:
            return self._with(info, tuple(asks), tuple(keys))
        key = claim_key(info)
        claim = self._table.claims.get(key)
        if claim is None:
            # No claim yet: a decision may choose any node, with devices or with its own resource.
            extended = uses.extended if resource else ()
            return self._with(info, tuple(asks), (*keys, key) if resource else (*keys,), extended)
        lack = self._claim_problem(info, _Entry("", key[1], _NO_TEMPLATE), key, claim, None)
        if not lack and claim.allocation is None:
            lack = claim_messages.from_an_earlier_attempt(key[1])
        if lack:
            return replace(self._with(info, (), ()), unclaimed=lack)
        return self._with(info, (*asks, key), (*keys, key))

    def _refused(self, info: PodInfo, feature: str) -> PodInfo:
        wants = self._requirements[info.uid]
        wants = replace(wants, unsupported=(*wants.unsupported, feature))
        return replace(info, requirements=wants, device_claims=(), unclaimed="")

    def _with(
        self,
        info: PodInfo,
        asks: tuple[Ask | ClaimKey, ...],
        keys: tuple[ClaimKey, ...],
        extended: tuple[ContainerDevices, ...] = (),
    ) -> PodInfo:
        wants = self._requirements[info.uid]
        if asks or extended:
            wants = replace(wants, asks=asks, extended=extended)
        return replace(info, requirements=wants, device_claims=keys, unclaimed="")

    def _group_consumer(self, info: PodInfo, uses: _Uses) -> GroupConsumer | None:
        """Return the native group as the consumer of claims that the pod uses through it."""
        if info.group is None or info.group_kind == POD_GROUP:
            return None
        native = self._of_native_groups.get((info.namespace, info.group))
        if native is None:
            return None
        entries = (it for it in uses.entries if native.shares(it.name, it.claim, it.template))
        claims = tuple((info.namespace, it.claim) for it in entries if it.claim)
        return GroupConsumer(native.uid, claims) if claims else None

    def _claim_problem(
        self,
        info: PodInfo,
        entry: _Entry,
        key: ClaimKey,
        claim: DeviceClaimInfo | None,
        consumer: GroupConsumer | None,
    ) -> str:
        """Return why the pod cannot use the claim yet; empty if it can.

        `consumer` is its native group if the pod uses the claim through it.
        """
        namespace, name = key
        pod = f"{namespace}/{info.name}"
        ours = info.group is not None and info.group_kind == POD_GROUP
        shared = self._of_groups.get((namespace, info.group or "")) if ours else None
        if shared is not None and (text := shared.problem_of_own(entry.name, entry.template)):
            return text
        if not entry.claim:
            return claim_messages.not_created(pod)
        if claim is None:
            return claim_messages.not_found("ResourceClaim", key)
        if claim.terminating:
            return claim_messages.terminating(name)
        # The name may belong to a claim of a tenant, or of an earlier pod with this name.
        owner, kind, whose = info.uid, "Pod", pod
        if consumer is not None:
            owner, kind, whose = consumer.uid, "PodGroup", f"{namespace}/{info.group}"
        if entry.own and claim.owner != owner:
            return claim_messages.of_another_owner(key, kind, whose)
        if shared is not None and not entry.own and (text := shared.problem_of(claim)):
            return text
        # A claim that thousands of pods name would cost that many evaluations with each change.
        naming = self._naming.get(key, {})
        if len(naming) > MOST_NAMING and info.uid not in islice(naming, MOST_NAMING):
            return claim_messages.named_by_too_many(name, MOST_NAMING)
        return ""


def entries_of(spec: PodSpec) -> tuple[list[PodClaimEntry], str]:
    """Return the entries that can be read, none of too many, and why others are not understood."""
    if problem := excess_of_claims(len(spec.resource_claims)):
        return [], problem
    entries: list[PodClaimEntry] = []
    for index, raw in enumerate(spec.resource_claims):
        try:
            entry = decode_pod_claim(raw)
        except msgspec.DecodeError as error:
            problem = problem or f"resourceClaims[{index}], which Muster does not know: {error}"
            continue
        entries.append(entry)
        if not (entry.resource_claim_name or entry.resource_claim_template_name):
            neither = f"resourceClaims[{index}], which names neither a claim nor a template"
            problem = problem or neither
    return entries, problem


def _mapped(written: Iterable[MappedRequest]) -> tuple[RequestMapping, ...]:
    each = (RequestMapping(it.container_name, it.resource_name, it.request_name) for it in written)
    return tuple(sorted(each))


def _keys(info: PodInfo, uses: _Uses) -> tuple[ClaimKey, ...]:
    names = dict.fromkeys(entry.claim for entry in uses.entries if entry.claim)
    if uses.created:
        names[uses.created] = None
    return tuple((info.namespace, name) for name in names)


def _uses_of(pod: Pod) -> _Uses:
    """Return the claims in spec and status of the pod. Too many are ignored and cost nothing."""
    written, problem = entries_of(pod.spec)
    if problem:
        return _Uses((), problem, claims=True)
    created = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    entries: list[_Entry] = []
    for entry in written:
        template = entry.resource_claim_template_name or ""
        if entry.resource_claim_name:
            entries.append(_Entry(entry.name, entry.resource_claim_name))
        elif entry.name not in created:
            entries.append(_Entry(entry.name, "", template))
        # A status entry without a name means that the pod needs no claim for this entry.
        elif (name := created[entry.name]) is not None:
            entries.append(_Entry(entry.name, name, template))
    namespace = pod.metadata.namespace
    keys = tuple((namespace, entry.claim) for entry in entries if entry.claim)
    return _Uses(tuple(entries), claims=bool(pod.spec.resource_claims), keys=keys)
