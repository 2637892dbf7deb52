"""Rules of PodGroup and CompositePodGroup: references, policy, constraints, mode, priority."""

from collections.abc import Iterator, Mapping
from typing import Any

from api import names
from api.constants import MAX_CLAIM_CONSUMERS
from api.reading import Reader, dig, integer, listing, text
from api.rules import parts, table
from api.rules.expected import check_expected_pods


def check_pod_group(
    reader: Reader, spec: Mapping[str, Any], v1alpha2: Mapping[str, Any] | None = None
) -> None:
    """Check all rules of `PodGroup.spec`; `v1alpha2` has that version's template reference."""
    _check_workload_ref(reader, spec)
    _check_reference_fields(reader, v1alpha2 or {})
    _check_parent(reader, spec)
    if spec.get("parentCompositePodGroupName") and spec.get("workloadRef") is None:
        reader.report.append(table.WORKLOAD_REF_FOR_PARENT.at("spec.workloadRef"))
    # Without a policy the group takes its template's (KEP-5832).
    missing = None if spec.get("workloadRef") is not None else table.POLICY_UNLESS_TEMPLATE
    parts.check_policy(reader, spec, "spec", composite=False, missing=missing)
    _check_common(reader, spec)
    parts.check_claims(reader, spec, "spec")
    check_expected_pods(reader, spec)


def check_composite(reader: Reader, name: str, spec: Mapping[str, Any]) -> None:
    """Check all rules of `CompositePodGroup.spec`."""
    if spec.get("workloadRef") is None:
        reader.report.append(table.WORKLOAD_REF_REQUIRED.at("spec.workloadRef"))
    _check_workload_ref(reader, spec)
    parent = _check_parent(reader, spec)
    if parent and parent == name:
        reader.report.append(table.OWN_PARENT.at("spec.parentCompositePodGroupName", parent))
    parts.check_policy(reader, spec, "spec", composite=True)
    _check_common(reader, spec)


def _check_common(reader: Reader, spec: Mapping[str, Any]) -> None:
    parts.check_topology(reader, spec, "spec")
    parts.check_mode(reader, spec, "spec")
    parts.check_priority(reader, spec, "spec")


def _check_workload_ref(reader: Reader, spec: Mapping[str, Any]) -> None:
    if spec.get("workloadRef") is None:
        return
    path = "spec.workloadRef"
    reference = reader.mapping(spec, "workloadRef", path)
    workload = reader.text(reference, "workloadName", f"{path}.workloadName")
    if not workload:
        reader.report.append(table.WORKLOAD_NAME_REQUIRED.at(f"{path}.workloadName"))
    elif not names.is_dns_subdomain(workload):
        reader.report.append(table.WORKLOAD_NAME.at(f"{path}.workloadName", workload))
    template = reader.text(reference, "templateName", f"{path}.templateName")
    if not template:
        reader.report.append(table.TEMPLATE_REF_REQUIRED.at(f"{path}.templateName"))
    elif not names.is_dns_label(template):
        reader.report.append(table.TEMPLATE_REF.at(f"{path}.templateName", template))


def _check_reference_fields(reader: Reader, fields: Mapping[str, Any]) -> None:
    """Check v1alpha2's two fields for one name: if a client sets both, they must be equal."""
    name, reference = (
        text(fields.get("podGroupTemplateName")),
        text(dig(fields, "podGroupTemplateRef", "name")),
    )
    if name and reference and name != reference:
        path = "spec.podGroupTemplateRef.name"
        reader.report.append(table.TEMPLATE_REF_DIFFERS.at(path, reference))


def _check_parent(reader: Reader, spec: Mapping[str, Any]) -> str:
    path = "spec.parentCompositePodGroupName"
    parent = reader.text(spec, "parentCompositePodGroupName", path)
    if spec.get("parentCompositePodGroupName") is not None and not names.is_dns_subdomain(parent):
        reader.report.append(table.PARENT_NAME.at(path, parent))
    return parent


def too_many_consumers(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for a gang with more pods than one of its claims can serve."""
    # A warning only: some of the pods may not use the claim.
    count = integer(dig(spec, "schedulingPolicy", "gang", "minCount")) or 0
    if count > MAX_CLAIM_CONSUMERS and listing(spec.get("resourceClaims")):
        yield (
            f"spec.schedulingPolicy.gang.minCount: {count} pods run at the same time, and at most "
            f"{MAX_CLAIM_CONSUMERS} pods can use a ResourceClaim of spec.resourceClaims"
        )
