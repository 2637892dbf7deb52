"""ResourceClaims that the pods of a PodGroup share, with the check that they are the group's.

The namespace may have other claims with these names, of a user or of an earlier group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from api import names
from api.constants import MAX_RESOURCE_CLAIMS
from api.group_claims import shared_claim_advice
from api.membership import pods_name, taken_name_advice, usual_name
from api.reading import listing, mapping, text
from scheduler.core.values.devices import DeviceClaimInfo
from scheduler.decoding import claim_messages
from scheduler.decoding.objects import GroupObject


@dataclass(frozen=True, slots=True)
class NativeGroupClaims:
    """Claims of a native PodGroup, by entry: the name of the claim, or of its template.

    Kubernetes creates the claims from templates, with the group as their owner, and writes their
    names to the statuses of the group and of each pod. Pods use a claim through the group if they
    have the same entry. It is reserved for the group then, not for each pod.
    """

    uid: str
    entries: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, group: GroupObject | None) -> NativeGroupClaims | None:
        """Return the claims of the group; None if it has none."""
        if group is None or not group.spec.resource_claims:
            return None
        entries = {
            each.name: (each.resource_claim_name or "", each.resource_claim_template_name or "")
            for each in group.spec.resource_claims[:MAX_RESOURCE_CLAIMS]
        }
        return cls(group.metadata.uid, entries)

    def shares(self, entry: str, claim: str, template: str) -> bool:
        """Return True if a pod with this entry uses the claim through the group."""
        named, made_from = self.entries.get(entry, ("", ""))
        return made_from == template if template else bool(claim) and named == claim


@dataclass(frozen=True, slots=True)
class GroupClaims:
    """Shared claims of the PodGroup `name`.

    `templates` are the ResourceClaimTemplates by entry, `created` the names of the claims in its
    status. `pods_name` is the name by which its pods refer to the group. `taken` is the advice if
    their claim belongs to another group.
    """

    namespace: str
    name: str
    uid: str
    templates: Mapping[str, str]
    created: frozenset[str]
    pods_name: str
    taken: str = ""

    @classmethod
    def of(cls, group: GroupObject | None) -> GroupClaims | None:
        """Return the shared claims of the group; None if it has none."""
        if group is None or not group.spec.resource_claims:
            return None
        templates = {
            each.name: each.resource_claim_template_name
            # Entries that name a claim have no template, so their claim belongs to a user.
            for each in group.spec.resource_claims[:MAX_RESOURCE_CLAIMS]
            if each.resource_claim_template_name and not each.resource_claim_name
        }
        # The status is read as untyped JSON: users can write it, too.
        said = map(mapping, listing((group.status or {}).get("resourceClaimStatuses")))
        created = {text(it.get("resourceClaimName")) for it in said if it.get("name") in templates}
        meta = group.metadata
        # Its pods may name the claims of the group whose name it stands for.
        taken = taken_name_advice(meta) if usual_name(meta) else ""
        group_of = (meta.namespace, meta.name, meta.uid, templates, frozenset(created))
        return cls(*group_of, pods_name(meta), taken)

    def problem_of(self, claim: DeviceClaimInfo) -> str:
        """Return why a pod of the group cannot use a claim that it names yet; empty if it can."""
        name, group = claim.key[1], f"{self.namespace}/{self.name}"
        # A claim with another name is not shared through the group.
        if name not in self.created | {
            names.group_claim(self.pods_name, it) for it in self.templates
        }:
            return ""
        # By UID: the claim of an earlier group may have the same owner name.
        if claim.owner != self.uid and self.taken:
            return f"ResourceClaim {self.namespace}/{name}: {self.taken}."
        if claim.owner != self.uid:
            return claim_messages.of_another_owner(claim.key, "PodGroup", group)
        if name not in self.created:
            return claim_messages.not_recorded(claim.key, self.name)
        return ""

    def problem_of_own(self, entry: str, template: str) -> str:
        """Return why the pod must not use a claim of its own; empty if it may."""
        # kube-controller-manager creates one for each pod: they would run and share nothing.
        shared = template and self.templates.get(entry) == template
        return f"{shared_claim_advice(self.pods_name, entry)}." if shared else ""
