"""Defaults and validation of CustomResourceDefinitions."""

import re
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import forbidden, invalid, not_supported, required
from localcluster.base.meta import subdomain_problem
from localcluster.schemas import structural
from localcluster.schemas.webhook_rules import check_client, check_versions

Object = dict[str, Any]

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NOT_DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def default_crd(crd: Object) -> None:
    """Set the defaults of a definition in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", 443)
    stored = [one.get("name") for one in spec.get("versions") or () if one.get("storage")][:1]
    crd.setdefault(
        "status",
        {
            "acceptedNames": {"kind": "", "plural": ""},
            "conditions": None,
            "storedVersions": stored,
        },
    )


def check_crd(crd: Object, old: Object | None) -> list[Cause]:
    """Return every validation error of a definition; `old` is the stored one on an update."""
    spec = crd.get("spec") or {}
    versions = spec.get("versions") or []
    causes = _check_name(crd, spec) + _check_group(spec) + _check_names(spec.get("names") or {})
    if not spec.get("scope"):
        causes.append(required("spec.scope"))
    elif spec["scope"] not in {"Cluster", "Namespaced"}:
        causes.append(not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    if spec.get("preserveUnknownFields"):
        detail = "must be false"
        causes.append(invalid("spec.preserveUnknownFields", True, detail))
    for index, version in enumerate(versions):
        causes += _check_version(version, f"spec.versions[{index}]")
    causes += _check_schemas(versions) + _check_version_set(versions)
    causes += _check_conversion(spec.get("conversion") or {})
    return causes + (_check_change(spec, old) if old is not None else [])


def _check_name(crd: Object, spec: Object) -> list[Cause]:
    name = crd.get("metadata", {}).get("name", "")
    if name == f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _check_group(spec: Object) -> list[Cause]:
    group = spec.get("group") or ""
    if not group:
        return [required("spec.group")]
    if problem := subdomain_problem(group):
        return [invalid("spec.group", group, problem)]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def _check_names(names: Object) -> list[Cause]:
    causes = []
    for field in ("plural", "singular", "kind", "listKind"):
        name, here = names.get(field) or "", f"spec.names.{field}"
        exact = field in {"plural", "singular"}
        if not name:
            causes.append(required(here))
        elif not _DNS_1035.fullmatch(name if exact else name.lower()) or len(name) > 63:
            prefix = "" if exact else "may have mixed case, but should otherwise match: "
            causes.append(invalid(here, name, prefix + _NOT_DNS_1035))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if not _DNS_1035.fullmatch(name):
                causes.append(invalid(f"spec.names.{field}[{index}]", name, _NOT_DNS_1035))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        causes.append(invalid("spec.names.listKind", names["listKind"], detail))
    return causes


def _check_version(version: Object, path: str) -> list[Cause]:
    causes = []
    name = version.get("name") or ""
    if not _DNS_1035.fullmatch(name):
        causes.append(invalid(f"{path}.name", name, _NOT_DNS_1035))
    subresources = version.get("subresources") or {}
    if subresources.get("scale") is not None:
        causes += _check_scale(subresources["scale"], f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    return causes


def _check_scale(scale: Object, path: str) -> list[Cause]:
    causes = []
    wanted = {"specReplicasPath": ".spec.", "statusReplicasPath": ".status."}
    for field, start in wanted.items():
        value = scale.get(field) or ""
        if not value:
            causes.append(required(f"{path}.{field}"))
        elif not value.startswith(start):
            detail = f"should be a json path under {start[:-1]}"
            causes.append(invalid(f"{path}.{field}", value, detail))
    return causes


def _check_column(column: Object, path: str) -> list[Cause]:
    causes = [required(f"{path}.{name}") for name in ("name", "jsonPath") if not column.get(name)]
    kind = column.get("type") or ""
    if not kind:
        causes.append(required(f"{path}.type", "must be one of " + ",".join(COLUMN_TYPES)))
    elif kind not in COLUMN_TYPES:
        detail = "must be one of " + ",".join(COLUMN_TYPES)
        causes.append(invalid(f"{path}.type", kind, detail))
    return causes


def _schema(version: Object) -> Object | None:
    schema: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _check_schemas(versions: list[Object]) -> list[Cause]:
    """Check each schema; one that all versions share is checked once, under its common path."""
    schemas = [_schema(version) for version in versions]
    causes = []
    for index, schema in enumerate(schemas):
        if schema is None:
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            causes.append(required(path, "schemas are required"))
    present = [schema for schema in schemas if schema is not None]
    if len(present) == len(schemas) and all(schema == schemas[0] for schema in present):
        return causes + [
            cause
            for schema in present[:1]
            for cause in structural.check(schema, "spec.validation.openAPIV3Schema")
        ]
    for index, schema in enumerate(schemas):
        if schema is not None:
            causes += structural.check(schema, f"spec.versions[{index}].schema.openAPIV3Schema")
    return causes


def _check_version_set(versions: list[Object]) -> list[Cause]:
    causes = []
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        causes.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", versions, detail))
        if not any(version.get("storage") for version in versions):
            detail = "must have at least one stored version"
            causes.append(invalid("status.storedVersions", None, detail))
    return causes


def _check_conversion(conversion: Object) -> list[Cause]:
    """Return the errors of the conversion.

    As in the API server, the messages name the fields of the internal type.
    """
    path = "spec.conversion"
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if not strategy:
        return [required(f"{path}.strategy")]
    if strategy not in {"None", "Webhook"}:
        return [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    if strategy == "None":
        detail = "should not be set when strategy is not set to Webhook"
        said = {"webhookClientConfig": client, "conversionReviewVersions": versions}
        return [forbidden(f"{path}.{field}", detail) for field, value in said.items() if value]
    client_path = f"{path}.webhookClientConfig"
    if client is None:
        causes = [required(client_path, "required when strategy is set to Webhook")]
    else:
        causes = check_client(client, client_path)
    return causes + check_versions(versions or [], f"{path}.conversionReviewVersions")


def _check_change(spec: Object, old: Object) -> list[Cause]:
    before = old["spec"]
    fixed = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fixed += [("scope",), ("names", "kind")]
    causes = []
    for path in fixed:
        new_value: Any = spec
        old_value: Any = before
        for step in path:
            new_value, old_value = new_value.get(step), old_value.get(step)
        if new_value != old_value:
            causes.append(invalid("spec." + ".".join(path), new_value, "field is immutable"))
    return causes


def is_true(crd: Object, kind: str) -> bool:
    """Return True if the condition of the definition's status is True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def name_conflict(names: Object, others: list[Object]) -> tuple[str, str] | None:
    """Return reason and message if another definition of the same group uses a name."""
    taken = {
        name
        for other in others
        for name in (other["plural"], other["singular"], *(other.get("shortNames") or ()))
    }
    kinds = {other[field] for other in others for field in ("kind", "listKind")}
    wanted = [("Plural", names["plural"], taken), ("Singular", names["singular"], taken)]
    wanted += [("ShortNames", name, taken) for name in names.get("shortNames") or ()]
    wanted += [("Kind", names["kind"], kinds), ("ListKind", names["listKind"], kinds)]
    found = [(word, name) for word, name, used in wanted if name in used]
    if not found:
        return None
    word, name = found[-1]
    return f"{word}Conflict", f'"{name}" is already in use'
