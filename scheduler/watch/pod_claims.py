"""Which ResourceClaims pods use, and what these ask for: part of what a pod requires.

A pod's requirements depend on its claims, so it is counted anew when one of them comes, changes or
goes. Until all of them are there it waits, as if it had a scheduling gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from kube.meta import Key
from scheduler.core.device_table import DeviceTable
from scheduler.core.devices.asks import Ask
from scheduler.core.devices.model import DeviceClaimInfo
from scheduler.core.forest import Pod as KnownPod
from scheduler.core.model import ClaimKey, PodInfo, Requirements
from scheduler.watch.device_objects import decode_pod_claim
from scheduler.watch.group_claims import GroupClaims
from scheduler.watch.objects import GroupObject, Pod

NOT_SERVED: Final = "resourceClaims (resource.k8s.io/v1 is not served, or may not be read)"

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
    """The entries of a pod that need a claim, or why they are not understood."""

    namespace: str
    entries: tuple[_Entry, ...]
    problem: str = ""


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

    def serve(self) -> None:
        """The API server serves resource.k8s.io/v1, and all claims that there are are known."""
        if self._why_refused == NOT_SERVED:
            self._why_refused = ""

    def note(self, pod: Pod, requirements: Requirements) -> None:
        """The pod is there, with these entries, and requires this besides."""
        meta = pod.metadata
        uid = meta.uid
        if not pod.spec.resource_claims:
            if uid in self._uses:
                self.forget(uid)
            return
        uses = _uses_of(pod)
        self._requirements[uid] = requirements
        if self._uses.get(uid) != uses:
            self.forget(uid)
            self._uses[uid], self._requirements[uid] = uses, requirements
            for entry in uses.entries:
                if entry.claim:
                    self._naming.setdefault((meta.namespace, entry.claim), {})[uid] = None

    def forget(self, uid: str) -> list[str]:
        """The pod is gone; the UIDs of pods that count anew because of it."""
        uses = self._uses.pop(uid, None)
        self._requirements.pop(uid, None)
        promoted: list[str] = []
        if uses is None:
            return promoted
        for entry in uses.entries:
            key = (uses.namespace, entry.claim)
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
            return replace(info, device_claims=_keys(info, uses), unclaimed="")
        if not info.ours:
            return info
        if known is not None and known.assumed:
            asks, keys = known.info.requirements.asks, known.info.device_claims
            return self._with(info, asks, keys)
        refused = uses.problem or self._why_refused
        if refused:
            return self._refused(info, refused)
        return self._asking(info, uses)

    def _asking(self, info: PodInfo, uses: _Uses) -> PodInfo:
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
        return self._with(info, tuple(asks), tuple(keys))

    def _refused(self, info: PodInfo, feature: str) -> PodInfo:
        wants = self._requirements[info.uid]
        wants = replace(wants, unsupported=(*wants.unsupported, feature))
        return replace(info, requirements=wants, device_claims=(), unclaimed="")

    def _with(
        self, info: PodInfo, asks: tuple[Ask | ClaimKey, ...], keys: tuple[ClaimKey, ...]
    ) -> PodInfo:
        wants = self._requirements[info.uid]
        if asks:
            wants = replace(wants, asks=asks)
        return replace(info, requirements=wants, device_claims=keys, unclaimed="")

    def _lack(
        self, info: PodInfo, entry: _Entry, key: ClaimKey, claim: DeviceClaimInfo | None
    ) -> str:
        """Why the claim cannot be used yet; kube-scheduler's texts. Empty if it can."""
        namespace, name = key
        shared = self._of_groups.get((namespace, info.group)) if info.group is not None else None
        if shared is not None and (text := shared.lack_of_own(entry.name, entry.template)):
            return text
        if not entry.claim:
            return f'pod "{namespace}/{info.name}": ResourceClaim not created yet'
        if claim is None:
            return f'could not find ResourceClaim "{namespace}/{name}"'
        if claim.terminating:
            return f'resourceclaim "{name}" is being deleted'
        if entry.own and claim.owner != info.uid:
            return (
                f"ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{info.name}"
                " (Pod is not owner)"
            )
        if shared is not None and not entry.own and (text := shared.lack_of(claim)):
            return text
        naming = self._naming.get(key, {})
        if len(naming) > MOST_NAMING and info.uid not in islice(naming, MOST_NAMING):
            return f'resourceclaim "{name}" is named by more than {MOST_NAMING} pods'
        return ""


def _keys(info: PodInfo, uses: _Uses) -> tuple[ClaimKey, ...]:
    names = dict.fromkeys(entry.claim for entry in uses.entries if entry.claim)
    return tuple((info.namespace, name) for name in names)


def _uses_of(pod: Pod) -> _Uses:
    namespace = pod.metadata.namespace
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    entries: list[_Entry] = []
    for index, raw in enumerate(pod.spec.resource_claims):
        try:
            entry = decode_pod_claim(raw)
        except msgspec.DecodeError as error:
            return _Uses(
                namespace, (), f"resourceClaims[{index}], which Muster does not know: {error}"
            )
        if entry.resource_claim_name is not None:
            entries.append(_Entry(entry.name, entry.resource_claim_name))
        elif entry.resource_claim_template_name is None:
            return _Uses(
                namespace,
                (),
                f"resourceClaims[{index}], which names neither a claim nor a template",
            )
        elif entry.name not in made:
            entries.append(_Entry(entry.name, "", entry.resource_claim_template_name))
        elif (name := made[entry.name]) is not None:
            entries.append(_Entry(entry.name, name, entry.resource_claim_template_name))
    return _Uses(namespace, tuple(entries))
