"""The ResourceClaims that all pods of a PodGroup share: pure functions.

Kubernetes creates a claim for each pod that names a ResourceClaimTemplate. A PodGroup that names
one gets a single claim, and its pods name that claim (`names.group_claim`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from api import causes, names
from api.causes import Cause
from api.constants import ANNOTATION_SHARED_CLAIMS, RESOURCE_CLAIM
from api.ownership import Owner
from api.reading import dig, listing, mapping, mappings, text

Json = dict[str, Any]


def claim_object(group: Owner, name: str, template: Mapping[str, Any]) -> Json:
    """Return the claim of this name for a PodGroup, from a ResourceClaimTemplate (raw JSON).

    Spec, labels and annotations come from the template, as for the claims of pods. Muster's own
    labels and annotations take precedence.
    """
    given = mapping(dig(template, "spec", "metadata"))
    made = group.generated(RESOURCE_CLAIM, name)
    for key in ("labels", "annotations"):
        made["metadata"][key] = {**mapping(given.get(key)), **made["metadata"][key]}
    return made | {"spec": dict(mapping(dig(template, "spec", "spec")))}


def own_claims(pod: Mapping[str, Any], group: str, shared: Mapping[str, str]) -> Iterator[Cause]:
    """Yield causes for entries of a pod (raw JSON) that name the template of a shared claim.

    `shared` has the templates of the PodGroup `group` by entry.
    """
    # Kubernetes would create a claim for this pod alone, so the pods would run and share nothing.
    for at, entry in enumerate(mappings(pod, "spec", "resourceClaims")):
        name, template = text(entry.get("name")), text(entry.get("resourceClaimTemplateName"))
        if template and shared.get(name) == template:
            path = f"spec.resourceClaims[{at}].resourceClaimTemplateName"
            yield causes.invalid(path, template, shared_claim_advice(group, name))


def shared_claim_advice(group: str, entry: str) -> str:
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
