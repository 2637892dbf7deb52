"""The device kinds in a simulation: classes, slices and claims, and claims from templates.

Claims from templates are created as kube-controller-manager would, one for each pod and entry, and
as Muster's controllers would, one for each PodGroup and entry. A class in the files provides the
extended resource with its name, as in Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from analysis.simulate.dry_admission import apply
from api import names
from api.constants import POD_GROUP
from api.group_claims import own_claims, template_entries
from api.groups import groups_of_object, is_native
from kube.base.errors import ConfigError
from kube.client.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from scheduler.core.state.state import State
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceClaimInfo
from scheduler.core.values.model import ClaimKey, PodInfo
from scheduler.decoding.device_decode import (
    NotUnderstoodError,
    ask_of,
    device_class_info,
    device_taint_rule,
    resource_claim_info,
    slice_info,
)
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
    decode_taint_rule,
)
from scheduler.decoding.extended_resources import claim_key, containers_of
from scheduler.decoding.objects import decode_pod

Json = dict[str, Any]

DEVICE_KINDS: Final = {
    it.kind: it
    for it in (
        DEVICE_CLASSES,
        DEVICE_TAINT_RULES,
        RESOURCE_SLICES,
        RESOURCE_CLAIMS,
        RESOURCE_CLAIM_TEMPLATES,
    )
}

_UNSUPPORTED: Final = "resourceClaims"


class SimulatedDevices:
    """The device objects of the files, added to the state; `specs` are those of templates."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.specs: dict[ClaimKey, bytes] = {}
        self._templates: dict[ClaimKey, Ask] = {}
        self._of_groups: dict[tuple[str, str], dict[str, str]] = {}

    def add_all(self, objects: Sequence[Json]) -> None:
        """Add the device objects among these, and the claims of PodGroups. Raises ConfigError."""
        for obj in (each for each in objects if each["kind"] in DEVICE_KINDS):
            self._add(obj)
        # After the templates, from which the claims of groups are created.
        for obj in (each for each in objects if each["kind"] == POD_GROUP.kind):
            if not is_native(obj):
                self._add_group(obj)

    def _add(self, obj: Json) -> None:
        """Add an object of one of DEVICE_KINDS. Raises ConfigError."""
        kind, name = obj["kind"], obj["metadata"].get("name", "")
        table, data = self._state.own_devices, msgspec.json.encode(obj)
        problem = ""
        try:
            if kind == DEVICE_CLASSES.kind:
                table.set_class(device_class_info(decode_device_class(data), implicit=True))
            elif kind == DEVICE_TAINT_RULES.kind:
                rule = device_taint_rule(decode_taint_rule(data), self._state.release)
                if rule is not None:
                    table.slices.set_rule(rule)
            elif kind == RESOURCE_SLICES.kind:
                info, hidden = slice_info(decode_resource_slice(data))
                table.slices.set(info)
                problem = next(iter(hidden), "")
            elif kind == RESOURCE_CLAIMS.kind:
                # The status in a file is that of another cluster: the claim is not allocated here.
                obj.pop("status", None)
                claim, problem = resource_claim_info(
                    decode_resource_claim(msgspec.json.encode(obj))
                )
                # A claim that exists in the cluster stays as it is: it may be allocated.
                if claim.key not in table.claims:
                    table.set_claim(claim)
            else:
                spec = (obj.get("spec") or {}).get("spec") or {}
                key = (obj["metadata"]["namespace"], name)
                self.specs[key] = msgspec.json.encode(spec)
                self._templates[key], problem = ask_of(self.specs[key])
        except (msgspec.DecodeError, NotUnderstoodError) as error:
            problem = str(error)
        if problem:
            raise ConfigError(f"{kind} {name}: {problem}")

    def _add_group(self, obj: Json) -> None:
        """Create the claims that the pods of a PodGroup share."""
        spec, meta = obj.get("spec") or {}, obj["metadata"]
        space, group = meta["namespace"], meta.get("name", "")
        entries = template_entries(spec.get("resourceClaims"))
        self._of_groups[space, group] = entries
        for entry, template in entries.items():
            key = (space, names.group_claim(group, entry))
            if key not in self._state.devices.claims:
                ask = self._template(space, template, f"PodGroup {group}: entry {entry}")
                claim = DeviceClaimInfo(key, f"simulated-{'-'.join(key)}", ask)
                self._state.own_devices.set_claim(claim)

    def check(self, pod: Json) -> None:
        """Raise ConfigError for a pod that names a template for which its group has one claim."""
        for group in groups_of_object(pod, ours=True)[:1]:
            shared = self._of_groups.get((pod["metadata"]["namespace"], group.name), {})
            apply(pod, list(own_claims(pod, group.name, shared)), ())

    def with_claims(self, obj: Json, info: PodInfo) -> PodInfo:
        """Return the pod with its claims, creating those from templates. Raises ConfigError."""
        entries = (obj.get("spec") or {}).get("resourceClaims") or []
        pod = decode_pod(msgspec.json.encode(obj))
        extended = containers_of(pod, info.requirements.requests)
        if not (entries or extended):
            return info
        asks: list[Ask | ClaimKey] = []
        keys: list[ClaimKey] = []
        for number, entry in enumerate(entries):
            key = (info.namespace, entry.get("resourceClaimName") or f"{info.name}-{entry['name']}")
            if "resourceClaimName" in entry:
                if key not in self._state.devices.claims:
                    raise ConfigError(
                        f'Pod {info.name}: resourceClaims[{number}]: ResourceClaim "{key[1]}" not'
                        " found in the cluster or in the files: add it to the files"
                    )
                asks.append(key)
            else:
                named = entry.get("resourceClaimTemplateName", "")
                about = f"Pod {info.name}: resourceClaims[{number}]"
                ask = self._template(info.namespace, named, about)
                claim = DeviceClaimInfo(key, f"simulated-{'-'.join(key)}", ask, owner=info.uid)
                self._state.own_devices.set_claim(claim)
                asks.append(ask)
            keys.append(key)
        wants = info.requirements
        unsupported = tuple(each for each in wants.unsupported if each != _UNSUPPORTED)
        if extended:
            keys.append(claim_key(info))
        wants = replace(wants, asks=tuple(asks), extended=extended, unsupported=unsupported)
        return replace(info, requirements=wants, device_claims=tuple(keys))

    def _template(self, namespace: str, name: str, about: str) -> Ask:
        ask = self._templates.get((namespace, name))
        if ask is None:
            raise ConfigError(
                f'{about}: ResourceClaimTemplate "{name}" not found in the files: add it. The'
                " simulation does not read templates from the cluster."
            )
        return ask
