"""Groups from the templates of a Workload that Muster did not create.

A user may write the Workload of a Job or JobSet. Pods may name a Workload and a template themselves
(KEP-4671). A Job may be delegated to a template. In each case the template defines the group, and
Muster never changes the Workload.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.constants import COMPOSITE_POD_GROUP, MAX_RESOURCE_CLAIMS, POD_GROUP
from api.inherit import INHERITED
from api.reading import dig, listing, mapping, text

Json = dict[str, Any]

_LISTS = (
    (POD_GROUP.kind, "podGroupTemplates"),
    (COMPOSITE_POD_GROUP.kind, "compositePodGroupTemplates"),
)


class TemplateNotFoundError(Exception):
    """A Workload has no template for a wanted group."""


@dataclass(frozen=True, slots=True)
class WorkloadTemplate:
    """A template of a Workload: `kind` is that of its groups, `parent` the template above it."""

    kind: str
    name: str
    parent: str
    fields: Mapping[str, Any]

    def apply(self, spec: Json) -> Json:
        """Return a group's spec with the template's values instead of its own.

        Raises TemplateNotFoundError as `with_claims` does.
        """
        kept = {key: value for key, value in spec.items() if key not in INHERITED}
        taken = {key: self.fields[key] for key in INHERITED if self.fields.get(key) is not None}
        return {"disruptionMode": {"single": {}}} | kept | taken | self.with_claims(spec)

    def with_claims(self, spec: Mapping[str, Any]) -> Json:
        """Return the field `resourceClaims`, if any, with the claims of template and group.

        Raises TemplateNotFoundError if both have an entry with different values, or are too many.
        """
        if self.kind != POD_GROUP.kind:
            return {}
        own = listing(self.fields.get("resourceClaims"))
        claims = {text(mapping(it).get("name")): it for it in own}
        for entry in listing(spec.get("resourceClaims")):
            if claims.setdefault(entry["name"], entry) != entry:
                raise TemplateNotFoundError(
                    f"template {self.name} and the pods have different ResourceClaims for entry "
                    f"{entry['name']} of resourceClaims: use the same ResourceClaimTemplate in "
                    "both"
                )
        if len(claims) > MAX_RESOURCE_CLAIMS:
            raise TemplateNotFoundError(
                f"template {self.name} and the pods share {len(claims)} ResourceClaims, and a "
                f"PodGroup can have at most {MAX_RESOURCE_CLAIMS}"
            )
        return {"resourceClaims": list(claims.values())} if claims else {}


def templates_of(workload: Mapping[str, Any]) -> list[WorkloadTemplate]:
    """Return all templates of a Workload (raw JSON of any structure), parents before children."""
    return list(_walk(mapping(workload.get("spec")), ""))


def find_template(
    workload: Mapping[str, Any], name: str, kind: str = POD_GROUP.kind
) -> WorkloadTemplate | None:
    """Return the template of that name for groups of a kind, or None."""
    found = _walk(mapping(workload.get("spec")), "")
    return next((it for it in found if (it.kind, it.name) == (kind, name)), None)


def find_root_template(workload: Mapping[str, Any], name: str) -> WorkloadTemplate | None:
    """Return the leaf template of that name that pods may name: one outside any composite."""
    found = find_template(workload, name)
    return found if found is not None and not found.parent else None


def choose_template(
    templates: list[WorkloadTemplate], kind: str, wanted: str, *, alone: bool
) -> WorkloadTemplate | None:
    """Return the template of a group whose template Muster would call `wanted`.

    It has that name (`pg-workers`), or the name without its prefix (`workers`). With `alone` the
    group is the only one, and the only template of its kind is used, whatever its name.
    """
    known = [it for it in templates if it.kind == kind]
    chosen = next((it for it in known if it.name in {wanted, wanted.partition("-")[2]}), None)
    return known[0] if chosen is None and alone and len(known) == 1 else chosen


def adapt(groups: list[Json], workload: Mapping[str, Any]) -> list[Json]:
    """Return the wanted groups with the values of a user's Workload instead of Muster's.

    Raises TemplateNotFoundError if `choose_template` finds none for a group.
    """
    name = text(dig(workload, "metadata", "name"))
    templates = templates_of(workload)
    return [_adapted(group, templates, name, alone=len(groups) == 1) for group in groups]


def _adapted(group: Json, templates: list[WorkloadTemplate], workload: str, *, alone: bool) -> Json:
    wanted = group["spec"]["workloadRef"]["templateName"]
    chosen = choose_template(templates, group["kind"], wanted, alone=alone)
    if chosen is None:
        have = ", ".join(it.name for it in templates if it.kind == group["kind"]) or "none"
        raise TemplateNotFoundError(
            f"Workload {workload} has no template {wanted} or {wanted.partition('-')[2]} for "
            f"{group['kind']} {group['metadata']['name']}. Its templates of that kind: {have}"
        )
    spec = chosen.apply(group["spec"])
    spec["workloadRef"] = {"workloadName": workload, "templateName": chosen.name}
    return group | {"spec": spec}


def _walk(holder: Mapping[str, Any], parent: str) -> Iterator[WorkloadTemplate]:
    for kind, key in _LISTS:
        for item in listing(holder.get(key)):
            fields = mapping(item)
            name = text(fields.get("name"))
            yield WorkloadTemplate(kind, name, parent, fields)
            if kind == COMPOSITE_POD_GROUP.kind:
                yield from _walk(fields, name)
