"""Requests of expected pods for devices: their ResourceClaims as they will be created.

A pod's own claim requests what its ResourceClaimTemplate has now. The claim does not exist before
the pod does, so the devices assumed for it are kept under a key that no claim has.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from kube.client.meta import Key
from scheduler.core.devices.table import DeviceTable
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.extended_devices import ContainerDevices, resources_of
from scheduler.core.values.model import ClaimKey, PodInfo
from scheduler.decoding.claim_messages import not_found, terminating
from scheduler.decoding.device_decode import ask_of
from scheduler.decoding.device_objects import PodClaimEntry
from scheduler.decoding.extended_resources import containers_of
from scheduler.decoding.objects import Metadata, Pod, PodSpec
from scheduler.decoding.pod_claims import NOT_SERVED, entries_of

OWN: Final = "/"
"""Prefix of the number of an expected pod's own claim in its key. No claim's name has a slash."""

TEMPLATE: Final = "template"
CLAIM: Final = "claim"
RESOURCE: Final = "resource"

Thing = tuple[str, str, str]
"""An object that a group's expected pods name: TEMPLATE, CLAIM or RESOURCE, namespace, name."""

_AT_ONCE: Final = 128
"""Groups evaluated in one step when an object that they name changes. The others follow in the next
steps."""


class ExpectedClaims:
    """The ResourceClaimTemplates, and the groups to evaluate again when they change.

    Pods with claims are refused until `serve` is called, and also after that if `refused` has a
    reason. If templates may not be read, no devices are held for their claims.
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
        """Record that all claims are known; with `templates`, that templates are known, too."""
        self.templates_known = templates
        if self._why_refused == NOT_SERVED:
            self._why_refused = ""
        self._stale |= dict.fromkeys(self._named)

    def on_template_changed(self, key: Key, spec: bytes | None) -> None:
        """Record the spec of a ResourceClaimTemplate (None: deleted)."""
        before = self._templates.pop(key, None)
        now = None if spec is None else ask_of(spec)
        if now is not None:
            self._templates[key] = now
        # Metadata of a template changes without a meaning for its claims.
        if before != now:
            self.changed((TEMPLATE, *key))

    def changed(self, thing: Thing) -> None:
        """Record that groups are stale whose expected pods name the object."""
        self._stale |= self._naming.get(thing, {})

    def stale(self) -> list[Key]:
        """Return some of the stale groups, each of them once."""
        # Any number of groups may name one object, and the event loop must not wait for all.
        found = list(islice(self._stale, _AT_ONCE))
        for key in found:
            del self._stale[key]
        return found

    def note(self, group: Key, things: set[Thing]) -> None:
        """Record the objects that the group's expected pods name."""
        self.forget(group)
        if things:
            self._named[group] = tuple(sorted(things))
            for thing in self._named[group]:
                self._naming.setdefault(thing, {})[group] = None

    def forget(self, group: Key) -> None:
        """Drop a group that no longer expects pods."""
        self._stale.pop(group, None)
        for thing in self._named.pop(group, ()):
            del self._naming[thing][group]
            if not self._naming[thing]:
                del self._naming[thing]

    def unseen(self, spec: PodSpec) -> bool:
        """True if the devices of such a pod are unknown before it exists."""
        if self.templates_known:
            return False
        return any(entry.resource_claim_template_name for entry in entries_of(spec)[0])

    def applied(self, info: PodInfo, spec: PodSpec) -> tuple[PodInfo, set[Thing]]:
        """Return a pod of the kind with the requests of its claims, and the objects it names.

        Raises kube.client.quantity.QuantityError for an invalid request.
        """
        extended = containers_of(Pod(_NO_META, spec), info.requirements.requests)
        resources = resources_of(extended)
        # Named even if nothing maps the resource now: a class that does may appear.
        things = {(RESOURCE, "", resource) for resource in resources}
        if not (spec.resource_claims or extended):
            return info, things
        entries, problem = entries_of(spec)
        for entry in entries:
            if entry.resource_claim_template_name:
                things.add((TEMPLATE, info.namespace, entry.resource_claim_template_name))
            elif entry.resource_claim_name:
                things.add((CLAIM, info.namespace, entry.resource_claim_name))
        mapped = next(filter(self._table.extended.class_of, resources), "")
        if self._why_refused and (spec.resource_claims or mapped):
            why = self._why_refused
            return _refused(info, why if spec.resource_claims else f"{mapped} by {why}"), things
        if problem:
            return _refused(info, problem), things
        return self._asking(info, entries, extended if mapped else ()), things

    def _asking(
        self,
        info: PodInfo,
        entries: list[PodClaimEntry],
        extended: tuple[ContainerDevices, ...],
    ) -> PodInfo:
        asks: list[Ask | ClaimKey] = []
        keys: list[ClaimKey] = []
        for number, entry in enumerate(entries):
            if name := entry.resource_claim_name:
                key = (info.namespace, name)
                lack = self._claim_problem(key)
                if lack:
                    return replace(info, unclaimed=lack)
                # Two entries may name one claim, which counts once.
                if key not in keys:
                    asks.append(key)
                    keys.append(key)
            # Without templates the pod is placed with no devices for this entry (`unseen`).
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
                # The number in the spec: each expected pod of the kind adds its UID (`keys_of`).
                keys.append((info.namespace, f"{OWN}{number}"))
        if extended:
            keys.append((info.namespace, f"{OWN}extended"))
        wants = replace(info.requirements, asks=tuple(asks), extended=extended)
        return replace(info, requirements=wants, device_claims=tuple(keys))

    def _claim_problem(self, key: ClaimKey) -> str:
        """Return why pods cannot use the claim that they name; empty if they can."""
        claim = self._table.claims.get(key)
        if claim is None:
            return not_found("ResourceClaim", key)
        return terminating(key[1]) if claim.terminating else ""


_NO_META: Final = Metadata(name="", namespace="", uid="")


def keys_of(info: PodInfo, uid: str) -> tuple[ClaimKey, ...]:
    """Return the keys of the claims of the expected pod with this UID; `info` is its kind."""
    return tuple(
        (namespace, f"{uid}{name}" if name.startswith(OWN) else name)
        for namespace, name in info.device_claims
    )


def own_keys(info: PodInfo) -> list[ClaimKey]:
    """Return the keys of the expected pod's own claims."""
    return [key for key in info.device_claims if OWN in key[1]]


def _refused(info: PodInfo, feature: str) -> PodInfo:
    wants = info.requirements
    return replace(info, requirements=replace(wants, unsupported=(*wants.unsupported, feature)))
