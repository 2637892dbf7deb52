"""The ResourceClaims that all pods of a PodGroup share: pure functions.

Kubernetes creates a claim for each pod that names a ResourceClaimTemplate. A PodGroup that names
one gets a single claim, and its pods name that claim (`names.group_claim`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from api import causes, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_SHARED_CLAIMS,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    POD_GROUP,
    RESOURCE_CLAIM,
)
from api.ownership import OwnerId
from api.reading import dig, listing, mapping, text

Json = dict[str, Any]


class GroupName(NamedTuple):
    """The PodGroup that owns claims. Their names begin with the name that its pods give."""

    namespace: str
    name: str
    uid: str
    pods_name: str

    @property
    def owner_id(self) -> OwnerId:
        """Identity of the group, as the annotation on its claims states it."""
        return OwnerId(POD_GROUP.group, POD_GROUP.kind, self.name, self.uid)


def claim_object(group: GroupName, entry: str, template: Mapping[str, Any]) -> Json:
    """Return the claim for an entry, from its ResourceClaimTemplate (raw JSON).

    Spec, labels and annotations come from the template, as for the claims of pods. Muster's own
    labels and annotations take precedence.
    """
    given = mapping(dig(template, "spec", "metadata"))
    notes = {LABEL_MANAGED_BY: MANAGED_BY}, {ANNOTATION_MADE_FOR: group.owner_id.annotation()}
    # Without blockOwnerDeletion: the deletion of the group need not wait for its claims.
    owner = {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "name": group.name,
        "uid": group.uid,
        "controller": True,
    }
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "name": names.group_claim(group.pods_name, entry),
            "namespace": group.namespace,
            "labels": {**mapping(given.get("labels")), **notes[0]},
            "annotations": {**mapping(given.get("annotations")), **notes[1]},
            "ownerReferences": [owner],
        },
        "spec": dict(mapping(dig(template, "spec", "spec"))),
    }


def own_claims(pod: Mapping[str, Any], group: str, shared: Mapping[str, str]) -> Iterator[Cause]:
    """Yield causes for entries of a pod (raw JSON) that name the template of a shared claim.

    `shared` has the templates of the PodGroup `group` by entry.
    """
    # Kubernetes would create a claim for this pod alone, so the pods would run and share nothing.
    for at, entry in enumerate(map(mapping, listing(dig(pod, "spec", "resourceClaims")))):
        name, template = text(entry.get("name")), text(entry.get("resourceClaimTemplateName"))
        if template and shared.get(name) == template:
            path = f"spec.resourceClaims[{at}].resourceClaimTemplateName"
            yield causes.invalid(path, template, shared_words(group, name))


def shared_words(group: str, entry: str) -> str:
    """Return the advice for a pod that names the template of an entry of its group."""
    return (
        f"the pods of PodGroup {group} share one ResourceClaim from this template: use "
        f"resourceClaimName {names.group_claim(group, entry)} instead. For a Job or JobSet with "
        f"the annotation {ANNOTATION_SHARED_CLAIMS}: {entry}, admission sets it"
    )


def template_entries(claims: Any) -> dict[str, str]:
    """Return the template of each entry in `resourceClaims` (raw JSON) that names one."""
    found = map(mapping, listing(claims))
    said = ((text(it.get("name")), text(it.get("resourceClaimTemplateName"))) for it in found)
    return {name: template for name, template in said if name and template}
