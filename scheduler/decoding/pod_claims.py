"""Which ResourceClaims pods use, and what these ask for: part of what a pod requires.

A pod's requirements depend on its claims, so it is counted anew when one of them comes, changes or
goes. Until all of them are there it waits, as if it had a scheduling gate.

A pod also uses devices if it requests extended resources that a device class stands for. Their
claim is made once it is decided where the pod goes: one that is there before is of an earlier
attempt. With an allocation it is used, without one it is deleted, as it may ask for what another
node lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from kube.client.meta import Key
from scheduler.core.devices.table import DeviceTable
from scheduler.core.groups.forest import Pod as KnownPod
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceClaimInfo
from scheduler.core.values.extended_devices import ContainerDevices, resources_of
from scheduler.core.values.model import ClaimKey, PodInfo, Requirements
from scheduler.decoding import claim_messages
from scheduler.decoding.device_objects import decode_pod_claim
from scheduler.decoding.extended_resources import claim_key, containers_of
from scheduler.decoding.group_claims import GroupClaims
from scheduler.decoding.limits import excess_of_claims
from scheduler.decoding.objects import GroupObject, Pod

NOT_SERVED: Final = "resourceClaims (resource.k8s.io/v1 is not served, or may not be read)"

_NO_TEMPLATE: Final = "-"
"""Stands for the template of a claim that the scheduler has made for one pod."""

MOST_NAMING: Final = 1024
"""Pods that are counted anew when a claim changes, at most; 256 can use it at once."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the spec: the name of its claim, empty as long as that is not made.

    One of the pod's `own` is from a template.
    """

    name: str
    claim: str
    template: str = ""

    @property
    def own(self) -> bool:
        return bool(self.template)


@dataclass(frozen=True, slots=True)
class _Uses:
    """The entries of a pod that need a claim, or why they are not understood.

    `claims`: the spec has any entries. `extended` are the containers of a waiting pod that request
    extended resources, `made` the name of the claim for these as far as its status says so. `keys`
    are the claims that concern it.
    """

    entries: tuple[_Entry, ...]
    problem: str = ""
    claims: bool = False
    extended: tuple[ContainerDevices, ...] = ()
    made: str = ""
    keys: tuple[ClaimKey, ...] = ()


class PodClaims:
    """The claims of the pods that have some; others cost nothing.

    `problems` says of which claims the spec is not understood, and why. Pods with claims are
    refused until `serve` is called, and after that as well where `refused` gives a reason.
    """

    def __init__(
        self, table: DeviceTable, problems: Mapping[ClaimKey, str], refused: str = ""
    ) -> None:
        self._why_refused = refused or NOT_SERVED
        self._table = table
        self._problems = problems
        self._uses: dict[str, _Uses] = {}
        self._requirements: dict[str, Requirements] = {}
        self._naming: dict[ClaimKey, dict[str, None]] = {}
        self._of_groups: dict[Key, GroupClaims] = {}
        self._requesting: dict[str, dict[str, None]] = {}

    def serve(self) -> None:
        """The API server serves resource.k8s.io/v1, and all claims that there are are known."""
        if self._why_refused == NOT_SERVED:
            self._why_refused = ""

    def note(self, pod: Pod, info: PodInfo) -> None:
        """The pod is there, with these entries; `info` says what it requires besides."""
        uid, requirements = info.uid, info.requirements
        waits = info.ours and not info.node
        extended = containers_of(pod, requirements.requests) if waits else ()
        made = pod.status.extended_resource_claim_status
        if not (pod.spec.resource_claims or extended or made):
            if uid in self._uses:
                self.forget(uid)
            return
        uses = _uses_of(pod)
        if extended or made:
            name = made.resource_claim_name if made else ""
            keys = (*uses.keys, claim_key(info)) if extended else uses.keys
            uses = replace(uses, extended=extended, made=name, keys=keys)
        self._requirements[uid] = requirements
        if self._uses.get(uid) != uses:
            self.forget(uid)
            self._uses[uid], self._requirements[uid] = uses, requirements
            for key in uses.keys:
                self._naming.setdefault(key, {})[uid] = None
            for resource in resources_of(extended):
                self._requesting.setdefault(resource, {})[uid] = None

    def forget(self, uid: str) -> list[str]:
        """The pod is gone; the UIDs of pods that count anew because of it."""
        uses = self._uses.pop(uid, None)
        self._requirements.pop(uid, None)
        promoted: list[str] = []
        if uses is None:
            return promoted
        for resource in resources_of(uses.extended):
            requesting = self._requesting[resource]
            del requesting[uid]
            if not requesting:
                del self._requesting[resource]
        for key in uses.keys:
            naming = self._naming.get(key)
            if naming is None or uid not in naming:
                continue
            full = len(naming) > MOST_NAMING
            del naming[uid]
            if not naming:
                del self._naming[key]
            elif full:
                promoted += islice(naming, MOST_NAMING - 1, MOST_NAMING)
        return promoted

    def all(self) -> list[str]:
        """The UIDs of all pods with claims."""
        return list(self._uses)

    def has(self, uid: str) -> bool:
        """Whether the pod has claims."""
        return uid in self._uses

    def requesting(self, resource: str) -> list[str]:
        """The UIDs of the waiting pods that request the extended resource."""
        return list(self._requesting.get(resource, ()))

    def containers_of(self, uid: str) -> tuple[ContainerDevices, ...]:
        """The containers of a waiting pod that request extended resources."""
        uses = self._uses.get(uid)
        return () if uses is None else uses.extended

    def claim_said(self, uid: str) -> str:
        """The name that the pod's status has of the claim for extended resources."""
        uses = self._uses.get(uid)
        return "" if uses is None else uses.made

    def naming(self, key: ClaimKey) -> list[str]:
        """The UIDs of the pods that a change of the claim concerns."""
        return list(islice(self._naming.get(key, ()), MOST_NAMING))

    def group_is(self, key: Key, group: GroupObject | None) -> bool:
        """A PodGroup changed or is gone (None); whether its pods with claims count anew then."""
        before, now = self._of_groups.pop(key, None), GroupClaims.of(group)
        if now is not None:
            self._of_groups[key] = now
        return before != now

    def applied(self, info: PodInfo, known: KnownPod | None) -> PodInfo:
        """The pod as it counts with its claims as they are.

        One that is being bound keeps what it asked for: its devices are assumed.
        """
        uses = self._uses.get(info.uid)
        if uses is None:
            return info
        if info.node:
            keys = _keys(info, uses)
            return replace(info, device_claims=keys, unclaimed="") if keys else info
        if not info.ours:
            return info
        if known is not None and known.assumed:
            wants, keys = known.info.requirements, known.info.device_claims
            return self._with(info, wants.asks, keys, wants.extended)
        resource = next(filter(self._table.extended.class_of, resources_of(uses.extended)), "")
        refused = uses.problem or self._why_refused
        if refused and (uses.claims or resource):
            return self._refused(info, refused if uses.claims else f"{resource} by {refused}")
        return self._asking(info, uses, resource)

    def _asking(self, info: PodInfo, uses: _Uses, resource: str) -> PodInfo:
        """Asking for its claims, and for devices if one stands for an extended `resource`."""
        asks: list[Ask | ClaimKey] = []
        keys: list[ClaimKey] = []
        for entry in uses.entries:
            key = (info.namespace, entry.claim)
            claim = self._table.claims.get(key)
            lack = self._lack(info, entry, key, claim)
            if lack or claim is None:
                return replace(self._with(info, (), ()), unclaimed=lack)
            if problem := self._problems.get(key):
                return self._refused(info, f'ResourceClaim "{entry.claim}", which {problem}')
            if key not in keys:  # two entries may mean one claim
                asks.append(claim.ask if entry.own and claim.allocation is None else key)
                keys.append(key)
        if not uses.extended:
            return self._with(info, tuple(asks), tuple(keys))
        key = claim_key(info)
        claim = self._table.claims.get(key)
        if claim is None:
            extended = uses.extended if resource else ()
            return self._with(info, tuple(asks), (*keys, key) if resource else (*keys,), extended)
        lack = self._lack(info, _Entry("", key[1], _NO_TEMPLATE), key, claim)
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

    def _lack(
        self, info: PodInfo, entry: _Entry, key: ClaimKey, claim: DeviceClaimInfo | None
    ) -> str:
        """Return why the pod cannot use the claim yet; empty if it can."""
        namespace, name = key
        pod = f"{namespace}/{info.name}"
        shared = self._of_groups.get((namespace, info.group)) if info.group is not None else None
        if shared is not None and (text := shared.lack_of_own(entry.name, entry.template)):
            return text
        if not entry.claim:
            return claim_messages.not_created(pod)
        if claim is None:
            return claim_messages.not_found("ResourceClaim", key)
        if claim.terminating:
            return claim_messages.terminating(name)
        if entry.own and claim.owner != info.uid:
            return claim_messages.of_another_owner(key, "Pod", pod)
        if shared is not None and not entry.own and (text := shared.lack_of(claim)):
            return text
        naming = self._naming.get(key, {})
        if len(naming) > MOST_NAMING and info.uid not in islice(naming, MOST_NAMING):
            return claim_messages.named_by_too_many(name, MOST_NAMING)
        return ""


def _keys(info: PodInfo, uses: _Uses) -> tuple[ClaimKey, ...]:
    names = dict.fromkeys(entry.claim for entry in uses.entries if entry.claim)
    if uses.made:
        names[uses.made] = None
    return tuple((info.namespace, name) for name in names)


def _uses_of(pod: Pod) -> _Uses:
    """What its spec says of claims. Too many are not looked at: changes of them cost nothing."""
    if problem := excess_of_claims(len(pod.spec.resource_claims)):
        return _Uses((), problem, claims=True)
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    entries: list[_Entry] = []
    for index, raw in enumerate(pod.spec.resource_claims):
        try:
            entry = decode_pod_claim(raw)
        except msgspec.DecodeError as error:
            return _Uses(
                (), f"resourceClaims[{index}], which Muster does not know: {error}", claims=True
            )
        if entry.resource_claim_name is not None:
            entries.append(_Entry(entry.name, entry.resource_claim_name))
        elif entry.resource_claim_template_name is None:
            problem = f"resourceClaims[{index}], which names neither a claim nor a template"
            return _Uses((), problem, claims=True)
        elif entry.name not in made:
            entries.append(_Entry(entry.name, "", entry.resource_claim_template_name))
        elif (name := made[entry.name]) is not None:
            entries.append(_Entry(entry.name, name, entry.resource_claim_template_name))
    namespace = pod.metadata.namespace
    keys = tuple((namespace, entry.claim) for entry in entries if entry.claim)
    return _Uses(tuple(entries), claims=bool(pod.spec.resource_claims), keys=keys)
