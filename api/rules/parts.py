"""Rules that templates and groups share: policy, topology, mode, priority, claims."""

from collections.abc import Mapping
from typing import Any, Final

from api import names
from api.causes import Cause
from api.constants import (
    ANNOTATION_HOLD_FROM,
    ANNOTATION_PROVISIONING_REQUEST,
    HIGHEST_USER_PRIORITY,
    HOLD_FROM_CREATION,
    MAX_RESOURCE_CLAIMS,
)
from api.reading import Reader, annotations_of, listing, mapping
from api.rules import table
from api.slices import SliceOptions, read_slices

# By "is composite".
MINIMUMS: Final = {False: "minCount", True: "minGroupCount"}


def check_policy(
    reader: Reader,
    owner: Mapping[str, Any],
    path: str,
    *,
    composite: bool,
    missing: table.Rule | None = table.POLICY_REQUIRED,
) -> None:
    """Check `schedulingPolicy`: one member, minCount 1 or more; optional if `missing` is None."""
    path = f"{path}.schedulingPolicy"
    if owner.get("schedulingPolicy") is None:
        if missing is not None:
            reader.report.append(missing.at(path))
        return
    policy = reader.mapping(owner, "schedulingPolicy", path)
    if not _one_of(policy, "basic", "gang"):
        reader.report.append(table.POLICY_ONE.at(path, policy))
    reader.mapping(policy, "basic", f"{path}.basic")
    if policy.get("gang") is not None:
        gang, field = reader.mapping(policy, "gang", f"{path}.gang"), MINIMUMS[composite]
        check_bound(reader, gang, field, f"{path}.gang.{field}")


def check_bound(
    reader: Reader, owner: Mapping[str, Any], field: str, path: str, *, required: bool = True
) -> None:
    """Check a number that must be 1 or more."""
    number = reader.integer(owner, field, path)
    if required and owner.get(field) is None:
        reader.report.append(table.MINIMUM_REQUIRED.at(path))
    elif number is not None and number < 1:
        reader.report.append(table.MINIMUM_TOO_LOW.at(path, number))


def check_topology(reader: Reader, owner: Mapping[str, Any], path: str) -> None:
    """Check `schedulingConstraints.topology`: at most one entry, with the key of a node label."""
    path = f"{path}.schedulingConstraints"
    constraints = reader.mapping(owner, "schedulingConstraints", path)
    entries = reader.items(constraints, "topology", f"{path}.topology")
    if len(entries) > table.TOPOLOGY_TOO_MANY.limit:
        reader.report.append(table.TOPOLOGY_TOO_MANY.at(f"{path}.topology", len(entries)))
    for at, entry in enumerate(entries):
        key_path = f"{path}.topology[{at}].key"
        key = reader.text(entry, "key", key_path)
        if not key:
            reader.report.append(table.TOPOLOGY_KEY_REQUIRED.at(key_path))
        elif not names.is_label_key(key):
            reader.report.append(table.TOPOLOGY_KEY.at(key_path, key))


def check_mode(reader: Reader, owner: Mapping[str, Any], path: str) -> None:
    """Check `disruptionMode`: absent, or exactly one member."""
    if owner.get("disruptionMode") is None:
        return
    path = f"{path}.disruptionMode"
    mode = reader.mapping(owner, "disruptionMode", path)
    if not _one_of(mode, "single", "all"):
        reader.report.append(table.MODE_ONE.at(path, mode))
    reader.mapping(mode, "single", f"{path}.single")
    reader.mapping(mode, "all", f"{path}.all")


def is_all(owner: Mapping[str, Any]) -> bool:
    """Return True if a template or group has mode `all`."""
    mode = owner.get("disruptionMode")
    return isinstance(mode, Mapping) and mode.get("all") is not None


def check_priority(reader: Reader, owner: Mapping[str, Any], path: str) -> None:
    """Check class name, number and preemption policy, each on its own."""
    name_path = f"{path}.priorityClassName"
    name = reader.text(owner, "priorityClassName", name_path)
    if name and not names.is_dns_subdomain(name):
        reader.report.append(table.PRIORITY_CLASS_NAME.at(name_path, name))
    priority = reader.integer(owner, "priority", f"{path}.priority")
    # Only the system's own classes may exceed the range of users, as for pods.
    if priority is not None and priority > HIGHEST_USER_PRIORITY and not name.startswith("system-"):
        reader.report.append(table.PRIORITY_MAXIMUM.at(f"{path}.priority", priority))
    policy = reader.text(owner, "preemptionPolicy", f"{path}.preemptionPolicy")
    if policy and policy not in table.PREEMPTION_POLICY.words:
        reader.report.append(table.PREEMPTION_POLICY.at(f"{path}.preemptionPolicy", policy))


def check_annotations(reader: Reader, obj: Mapping[str, Any], *, leaf: bool) -> None:
    """Check the values that are read, and the words of the others."""
    notes = annotations_of(obj)
    for key, (said, read) in table.READ.items():
        written = notes.get(key)
        if written is not None and read(written) is None:
            reader.report.append(said.at(said.where[0], written))
    asked, held = notes.get(ANNOTATION_PROVISIONING_REQUEST), notes.get(ANNOTATION_HOLD_FROM)
    for rule, written in ((table.PROVISIONING_REQUEST, asked), (table.HOLD_FROM, held)):
        if written is not None and written not in rule.words:
            reader.report.append(rule.at(rule.where[0], written))
    check_slices(reader, obj, leaf=leaf)
    child = mapping(obj.get("spec")).get("parentCompositePodGroupName")
    if held == HOLD_FROM_CREATION and (child or not leaf):
        reader.report.append(table.HOLD_FROM_ROOT.at(table.HOLD_FROM_ROOT.where[0], held))


def check_slices(reader: Reader, obj: Mapping[str, Any], *, leaf: bool) -> None:
    """Check the annotations of slices: their values, and that the group can have slices."""
    spec, found = mapping(obj.get("spec")), read_slices(annotations_of(obj))
    if not isinstance(found, SliceOptions):
        for fault in found:
            rule = table.SLICES[fault.annotation, fault.value is None]
            reader.report.append(rule.at(rule.where[0], fault.value))
        return
    path = table.SLICE_SIZE.where[0]
    if not leaf:
        reader.report.append(table.SLICE_LEAF.at(path, str(found.size)))
    elif listing(spec.get("expectedPods")):
        reader.report.append(table.SLICE_EXPECTED.at(path, str(found.size)))


def check_claims(reader: Reader, owner: Mapping[str, Any], path: str) -> None:
    """Check `resourceClaims`: at most four, unique names, exactly one reference each."""
    path = f"{path}.resourceClaims"
    claims = reader.items(owner, "resourceClaims", path)
    if len(claims) > MAX_RESOURCE_CLAIMS:
        reader.report.append(table.CLAIMS_TOO_MANY.at(path, len(claims)))
    seen: set[str] = set()
    for at, claim in enumerate(claims):
        _check_claim(reader, claim, f"{path}[{at}]", seen)


def _check_claim(reader: Reader, claim: Mapping[str, Any], path: str, seen: set[str]) -> None:
    name = reader.text(claim, "name", f"{path}.name")
    if not name:
        reader.report.append(table.CLAIM_NAME_REQUIRED.at(f"{path}.name"))
    elif name in seen:
        reader.report.append(table.CLAIM_NAME_DUPLICATE.at(f"{path}.name", name))
    elif not names.is_dns_label(name):
        reader.report.append(table.CLAIM_NAME.at(f"{path}.name", name))
    seen.add(name)
    if not _one_of(claim, "resourceClaimName", "resourceClaimTemplateName"):
        reader.report.append(table.CLAIM_ONE.at(path, claim))
    for field in ("resourceClaimName", "resourceClaimTemplateName"):
        reference = reader.text(claim, field, f"{path}.{field}")
        if claim.get(field) is not None and not names.is_dns_subdomain(reference):
            reader.report.append(table.CLAIM_REFERENCE.at(f"{path}.{field}", reference))


def check_claim_statuses(
    reader: Reader, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Check `status.resourceClaimStatuses`: every entry names a claim of the spec."""
    path = "status.resourceClaimStatuses"
    # The faults of the spec were reported at its own update, which is another request.
    ignored: list[Cause] = []
    known = {claim.get("name") for claim in Reader(ignored).items(spec, "resourceClaims", "")}
    for at, entry in enumerate(reader.items(status, "resourceClaimStatuses", path)):
        name = reader.text(entry, "name", f"{path}[{at}].name")
        if name not in known:
            reader.report.append(table.CLAIM_STATUS_UNKNOWN.at(f"{path}[{at}].name", name))
        claim = reader.text(entry, "resourceClaimName", f"{path}[{at}].resourceClaimName")
        if claim and not names.is_dns_subdomain(claim):
            reader.report.append(table.CLAIM_REFERENCE.at(f"{path}[{at}].resourceClaimName", claim))


def _one_of(owner: Mapping[str, Any], first: str, second: str) -> bool:
    """Return True if exactly one of two members is set; an empty object counts, null does not."""
    return (owner.get(first) is None) != (owner.get(second) is None)
