"""What expected pods ask of devices: their ResourceClaims as they will be made.

A claim of a pod's own asks for what its ResourceClaimTemplate says now. It does not exist as long
as the pod does not, so what it is assumed to have is known under a key that no claim has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec

from kube.client.meta import Key
from scheduler.core.devices.table import DeviceTable
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.extended_devices import ContainerDevices, resources_of
from scheduler.core.values.model import ClaimKey, PodInfo
from scheduler.decoding.claim_messages import not_found, terminating
from scheduler.decoding.device_decode import ask_of
from scheduler.decoding.device_objects import PodClaimEntry, decode_pod_claim
from scheduler.decoding.extended_resources import containers_of
from scheduler.decoding.limits import excess_of_claims
from scheduler.decoding.objects import Metadata, Pod, PodSpec
from scheduler.decoding.pod_claims import NOT_SERVED

OWN: Final = "/"
"""Before the number of a claim of a pod's own, in the key of its kind: no claim is called so."""

TEMPLATE: Final = "template"
CLAIM: Final = "claim"
RESOURCE: Final = "resource"

Thing = tuple[str, str, str]
"""What a group's expected pods name: TEMPLATE, CLAIM or RESOURCE, the namespace and the name."""

_AT_ONCE: Final = 128
"""Groups that are counted again in one piece when an object that they name changes."""


class ExpectedClaims:
    """The ResourceClaimTemplates, and which groups have to be counted anew when they change.

    Until `serve` is called pods with claims are refused, and after that as well where `refused`
    gives a reason. Where templates may not be read nothing is held of what they ask for.
    """

    def __init__(self, table: DeviceTable, refused: str = "") -> None:
        self.templates_known = False
        self._why_refused = refused or NOT_SERVED
        self._table = table
        self._templates: dict[Key, tuple[Ask, str]] = {}
        self._naming: dict[Thing, dict[Key, None]] = {}
        self._named: dict[Key, tuple[Thing, ...]] = {}
        self._stale: dict[Key, None] = {}

    def serve(self, *, templates: bool) -> None:
        """The API server serves claims, all of which are known; `templates`: and those as well."""
        self.templates_known = templates
        if self._why_refused == NOT_SERVED:
            self._why_refused = ""
        self._stale |= dict.fromkeys(self._named)

    def template_is(self, key: Key, spec: bytes | None) -> None:
        """A ResourceClaimTemplate makes claims with this spec; None: it is gone."""
        before = self._templates.pop(key, None)
        now = None if spec is None else ask_of(spec)
        if now is not None:
            self._templates[key] = now
        if before != now:
            self.changed((TEMPLATE, *key))

    def changed(self, thing: Thing) -> None:
        """Groups whose expected pods name it count them anew."""
        self._stale |= self._naming.get(thing, {})

    def stale(self) -> list[Key]:
        """Some groups whose expected pods are to be counted anew, which are told once."""
        found = list(islice(self._stale, _AT_ONCE))
        for key in found:
            del self._stale[key]
        return found

    def note(self, group: Key, things: set[Thing]) -> None:
        """The expected pods of the group name these."""
        self.forget(group)
        if things:
            self._named[group] = tuple(sorted(things))
            for thing in self._named[group]:
                self._naming.setdefault(thing, {})[group] = None

    def forget(self, group: Key) -> None:
        """The group expects nothing any more."""
        self._stale.pop(group, None)
        for thing in self._named.pop(group, ()):
            del self._naming[thing][group]
            if not self._naming[thing]:
                del self._naming[thing]

    def unseen(self, spec: PodSpec) -> bool:
        """Whether devices of such a pod are not looked at before it exists."""
        return not self.templates_known and any(
            entry.resource_claim_template_name for entry in _readable(spec)
        )

    def applied(self, info: PodInfo, spec: PodSpec) -> tuple[PodInfo, set[Thing]]:
        """A pod of the kind as it counts with its claims, and what it names.

        Raises kube.client.quantity.QuantityError for a request that is no quantity.
        """
        extended = containers_of(Pod(_NO_META, spec), info.requirements.requests)
        resources = resources_of(extended)
        things = {(RESOURCE, "", resource) for resource in resources}
        if not (spec.resource_claims or extended):
            return info, things
        for entry in _readable(spec):
            if entry.resource_claim_template_name:
                things.add((TEMPLATE, info.namespace, entry.resource_claim_template_name))
            elif entry.resource_claim_name:
                things.add((CLAIM, info.namespace, entry.resource_claim_name))
        mapped = next(filter(self._table.extended.class_of, resources), "")
        if self._why_refused and (spec.resource_claims or mapped):
            why = self._why_refused
            return _refused(info, why if spec.resource_claims else f"{mapped} by {why}"), things
        return self._asking(info, spec, extended if mapped else ()), things

    def _asking(
        self, info: PodInfo, spec: PodSpec, extended: tuple[ContainerDevices, ...]
    ) -> PodInfo:
        if problem := _problem(spec):
            return _refused(info, problem)
        asks: list[Ask | ClaimKey] = []
        keys: list[ClaimKey] = []
        for number, entry in enumerate(_readable(spec)):
            if name := entry.resource_claim_name:
                key = (info.namespace, name)
                lack = self._lack(key)
                if lack:
                    return replace(info, unclaimed=lack)
                if key not in keys:
                    asks.append(key)
                    keys.append(key)
            elif self.templates_known:
                template = entry.resource_claim_template_name or ""
                found = self._templates.get((info.namespace, template))
                if found is None:
                    lack = not_found("ResourceClaimTemplate", (info.namespace, template))
                    return replace(info, unclaimed=lack)
                ask, problem = found
                if problem:
                    return _refused(info, f'ResourceClaimTemplate "{template}", which {problem}')
                asks.append(ask)
                keys.append((info.namespace, f"{OWN}{number}"))
        if extended:
            keys.append((info.namespace, f"{OWN}extended"))
        wants = replace(info.requirements, asks=tuple(asks), extended=extended)
        return replace(info, requirements=wants, device_claims=tuple(keys))

    def _lack(self, key: ClaimKey) -> str:
        """Return why pods cannot use the claim that they name; empty if they can."""
        claim = self._table.claims.get(key)
        if claim is None:
            return not_found("ResourceClaim", key)
        return terminating(key[1]) if claim.terminating else ""


_NO_META: Final = Metadata(name="", namespace="", uid="")


def keys_of(info: PodInfo, uid: str) -> tuple[ClaimKey, ...]:
    """The keys of the claims of the expected pod with this UID, of which `info` is the kind."""
    return tuple(
        (namespace, f"{uid}{name}" if name.startswith(OWN) else name)
        for namespace, name in info.device_claims
    )


def own_keys(info: PodInfo) -> list[ClaimKey]:
    """Those of the keys that stand for claims of the expected pod's own."""
    return [key for key in info.device_claims if OWN in key[1]]


def _refused(info: PodInfo, feature: str) -> PodInfo:
    wants = info.requirements
    return replace(info, requirements=replace(wants, unsupported=(*wants.unsupported, feature)))


def _problem(spec: PodSpec) -> str:
    """Why its entries are not understood; empty if they are."""
    if problem := excess_of_claims(len(spec.resource_claims)):
        return problem
    for index, raw in enumerate(spec.resource_claims):
        try:
            entry = decode_pod_claim(raw)
        except msgspec.DecodeError as error:
            return f"resourceClaims[{index}], which Muster does not know: {error}"
        if not (entry.resource_claim_name or entry.resource_claim_template_name):
            return f"resourceClaims[{index}], which names neither a claim nor a template"
    return ""


def _readable(spec: PodSpec) -> Iterator[PodClaimEntry]:
    """Its entries, as long as there are not too many."""
    for raw in () if excess_of_claims(len(spec.resource_claims)) else spec.resource_claims:
        try:
            yield decode_pod_claim(raw)
        except msgspec.DecodeError:
            continue
