"""Claims that all pods of a Job's or JobSet's group share: the annotation `shared-claims`.

It names entries of the pod template's `spec.resourceClaims` with a ResourceClaimTemplate.
Kubernetes would create a claim for each pod from it. Instead, the group gets one claim, and the
pods name it. Admission writes its name in place of the template's when a Job is created. The
annotation `claim-templates` on the Job keeps the template, from which the group's claim is created.
A JobSet keeps its templates, and its Jobs are changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from api import causes, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_CLAIM_TEMPLATES,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_SHARED_CLAIMS,
    MAX_CLAIM_CONSUMERS,
    MAX_RESOURCE_CLAIMS,
)
from api.integration.common.result import Operation, drop_entry
from api.reading import annotations_of, dig, listing, mapping, mappings, text
from api.rules.table import DNS_LABEL_TEXT

Json = dict[str, Any]

TEMPLATE: Final = "resourceClaimTemplateName"
CLAIM: Final = "resourceClaimName"
_ENTRIES: Final = "/spec/template/spec/resourceClaims"

BY_NAME_TEXT: Final = (
    "all pods already share the ResourceClaim of this name: use resourceClaimTemplateName, or "
    f"remove the entry from the annotation {ANNOTATION_SHARED_CLAIMS}"
)


class Sharer(NamedTuple):
    """A pod template whose pods share claims: the path of its spec, the spec, its pods at once."""

    path: str
    pod_spec: Mapping[str, Any]
    pods: int


def read_shared(value: Any, path: str, report: list[Cause]) -> tuple[str, ...]:
    """Return the entries in the annotation; append faulty ones to `report` and omit them."""
    if value is None:
        return ()
    found = [part.strip() for part in value.split(",")] if isinstance(value, str) else [""]
    if len(found) > MAX_RESOURCE_CLAIMS:
        report.append(causes.too_many(path, len(found), MAX_RESOURCE_CLAIMS))
        return ()
    wrong = [name for name in found if not names.is_dns_label(name)]
    report += [causes.invalid(path, name, f"each name {DNS_LABEL_TEXT}") for name in wrong]
    kept = tuple(dict.fromkeys(name for name in found if name not in wrong))
    if len(kept) + len(wrong) < len(found):
        report.append(causes.duplicate(path, value))
    return kept


def entries_of(pod_spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the claims of a pod template by the names of their entries."""
    found = mappings(pod_spec, "resourceClaims")
    return {text(entry.get("name")): entry for entry in found}


def group_entries(shared: Iterable[str], templates: Mapping[str, str]) -> list[Json]:
    """Return `spec.resourceClaims` of a group whose pods share these entries."""
    return [{"name": it, TEMPLATE: templates[it]} for it in shared if it in templates]


def templates_of(pod_specs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the template of each entry; if several pod templates have one, the first counts."""
    found: dict[str, str] = {}
    for spec in pod_specs:
        for name, entry in entries_of(spec).items():
            template = text(entry.get(TEMPLATE))
            if template and entry.get(CLAIM) is None:
                found.setdefault(name, template)
    return found


def noted_templates(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the template of each entry that admission changed, by the annotation on the Job."""
    note = text(annotations_of(job).get(ANNOTATION_CLAIM_TEMPLATES))
    # Users can write the annotation, so bound it.
    said = [part.partition("=")[::2] for part in note.split(",")[:MAX_RESOURCE_CLAIMS]]
    return {
        name: template
        for name, template in said
        if names.is_dns_label(name) and names.is_dns_subdomain(template)
    }


def named_claims(
    job: Mapping[str, Any], shared: Iterable[str], group: str, before: str
) -> tuple[list[Operation], str]:
    """Return operations that let a new Job's pods name their group's claims, and the annotation.

    `before` is the group of the Job that this one was copied from, whose claims are replaced, too.
    """
    wanted, noted = set(shared), noted_templates(job)
    patch: list[Operation] = []
    note: dict[str, str] = {}
    for at, entry in enumerate(map(mapping, _entries(job))):
        name, template = text(entry.get("name")), text(entry.get(TEMPLATE))
        if name not in wanted:
            continue
        # A copied Job has a claim's name already, and its template in the annotation. Only the
        # claim of a group counts, as users may name any other.
        if entry.get(CLAIM) is not None:
            template = "" if template else noted.get(name, "")
            of_groups = {names.group_claim(it, name) for it in (group, before) if it}
            template = template if text(entry.get(CLAIM)) in of_groups else ""
        if template:
            note[name] = template
            patch += _replaced(at, entry, _named(entry, names.group_claim(group, name)))
    return patch, ",".join(f"{name}={template}" for name, template in note.items())


def kept_claims(job: Mapping[str, Any], old: Mapping[str, Any], group: str) -> list[Operation]:
    """Return operations that restore those names if an update has the templates again."""
    noted, before = noted_templates(old), entries_of(mapping(dig(old, "spec", "template", "spec")))
    patch: list[Operation] = []
    for at, entry in enumerate(map(mapping, _entries(job))):
        name = text(entry.get("name"))
        was = before.get(name, {})
        claim = names.group_claim(group, name)
        # Pod templates are immutable, so the API server rejects any other value.
        same = entry.get(TEMPLATE) == noted.get(name) and entry.get(CLAIM) in (None, claim)
        if name in noted and was.get(CLAIM) == claim and same:
            patch += _replaced(at, entry, was)
    return patch


def original_claims(job: Mapping[str, Any]) -> list[Any]:
    """Return the claims of a Job's pods as they were before admission replaced templates."""
    noted, group = noted_templates(job), text(annotations_of(job).get(ANNOTATION_MANAGED_GROUP))

    def original(entry: Any) -> Any:
        said, name = mapping(entry), text(mapping(entry).get("name"))
        if name not in noted or said.get(CLAIM) != names.group_claim(group, name):
            return entry
        return {key: value for key, value in said.items() if key != CLAIM} | {TEMPLATE: noted[name]}

    return [original(entry) for entry in _entries(job)]


def unshared(job: Mapping[str, Any]) -> list[Operation]:
    """Return operations for a Job without a group that was copied from a Job with one."""
    # The claim is deleted with the first Job's group, and the copy would then wait forever.
    claims = original_claims(job)
    patch = drop_entry(job, "", "annotations", ANNOTATION_CLAIM_TEMPLATES)
    if patch and claims != _entries(job):
        patch.append({"op": "replace", "path": _ENTRIES, "value": claims})
    return patch


def entry_faults(
    shared: Sequence[str], path: str, sharers: Sequence[Sharer], group: str = ""
) -> Iterator[Cause]:
    """Yield causes for the entries that the annotation at `path` names.

    `group` is the PodGroup whose claims the pods may already name.
    """
    for name in shared:
        having = [(it, entries_of(it.pod_spec)[name]) for it in sharers if name in _names(it)]
        if not having:
            yield causes.invalid(path, name, _unknown(sharers))
            continue
        first = text(having[0][1].get(TEMPLATE))
        for sharer, entry in having:
            place = f"{sharer.path}.resourceClaims[{_names(sharer).index(name)}]"
            claim = entry.get(CLAIM)
            if claim is not None:
                if not group or claim != names.group_claim(group, name):
                    yield causes.invalid(f"{place}.{CLAIM}", claim, BY_NAME_TEXT)
            elif text(entry.get(TEMPLATE)) != first:
                said = (
                    f"must be {first!r}, as in {having[0][0].path}, because the pods share one "
                    "ResourceClaim"
                )
                yield causes.invalid(f"{place}.{TEMPLATE}", entry.get(TEMPLATE), said)


def consumer_faults(shared: Sequence[str], path: str, sharers: Sequence[Sharer]) -> Iterator[Cause]:
    """Yield causes if more pods would use a claim than it can serve; `path` can change that."""
    # Nothing else reports this before the pods wait forever.
    for name in shared:
        pods = sum(it.pods for it in sharers if name in _names(it))
        if pods > MAX_CLAIM_CONSUMERS:
            said = (
                f"{pods} pods would use ResourceClaim {name} at the same time, and at most "
                f"{MAX_CLAIM_CONSUMERS} can: let fewer pods share it"
            )
            yield causes.invalid(path, pods, said)


def _entries(job: Mapping[str, Any]) -> list[Any]:
    return listing(dig(job, "spec", "template", "spec", "resourceClaims"))


def _names(sharer: Sharer) -> list[str]:
    found = mappings(sharer.pod_spec, "resourceClaims")
    return [text(entry.get("name")) for entry in found]


def _unknown(sharers: Sequence[Sharer]) -> str:
    have = sorted({name for it in sharers for name in _names(it) if name})
    paths = " or ".join(f"{it.path}.resourceClaims" for it in sharers[:2])
    return f"must match the name of an entry in {paths}: it has {', '.join(have) or 'none'}"


def _named(entry: Mapping[str, Any], claim: str) -> Json:
    kept = {key: value for key, value in entry.items() if key != TEMPLATE}
    return kept | {CLAIM: claim}


def _replaced(at: int, entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Operation]:
    if dict(entry) == dict(wanted):
        return []
    return [{"op": "replace", "path": f"{_ENTRIES}/{at}", "value": dict(wanted)}]
