"""The ResourceClaims that all pods of a PodGroup share. Pure functions.

Kubernetes makes a claim for each pod that names a ResourceClaimTemplate. A PodGroup that names one
gets a single claim; its pods name that claim (`names.group_claim`).
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
    """The PodGroup that claims are made for. Their names begin with the name that its pods give."""

    namespace: str
    name: str
    uid: str
    pods_name: str

    @property
    def owner_id(self) -> OwnerId:
        """Its identity, as noted on its claims."""
        return OwnerId(POD_GROUP.group, POD_GROUP.kind, self.name, self.uid)


def claim_object(group: GroupName, entry: str, template: Mapping[str, Any]) -> Json:
    """The claim for an entry, from its ResourceClaimTemplate (raw JSON).

    Spec, labels and annotations are the template's, as on the claims of pods; Muster's own labels
    and annotations win. The owner is not blocked: nothing of it waits for its claims.
    """
    given = mapping(dig(template, "spec", "metadata"))
    notes = {LABEL_MANAGED_BY: MANAGED_BY}, {ANNOTATION_MADE_FOR: group.owner_id.annotation()}
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
    """Entries of a pod (raw JSON) that name the template of which its group has one claim for all.

    Kubernetes would make a claim for this pod alone. `shared` has the templates of the PodGroup
    `group` by entry.
    """
    for at, entry in enumerate(map(mapping, listing(dig(pod, "spec", "resourceClaims")))):
        name, template = text(entry.get("name")), text(entry.get("resourceClaimTemplateName"))
        if template and shared.get(name) == template:
            path = f"spec.resourceClaims[{at}].resourceClaimTemplateName"
            yield causes.invalid(path, template, shared_words(group, name))


def shared_words(group: str, entry: str) -> str:
    """What to do about a pod that names the template of an entry of its group."""
    return (
        f"the pods of PodGroup {group} share one claim from this template: name that claim "
        f"instead, resourceClaimName: {names.group_claim(group, entry)}; admission does it for a "
        f"Job or JobSet with {ANNOTATION_SHARED_CLAIMS}: {entry}"
    )


def template_entries(claims: Any) -> dict[str, str]:
    """Entry and template of those of a list `resourceClaims` (raw JSON) that name a template."""
    found = map(mapping, listing(claims))
    said = ((text(it.get("name")), text(it.get("resourceClaimTemplateName"))) for it in found)
    return {name: template for name, template in said if name and template}
