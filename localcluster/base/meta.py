"""The rules of metadata that apply to every kind."""

import random
import re
import uuid
from collections.abc import Iterable
from typing import Any

from localcluster.base.errors import Cause

Object = dict[str, Any]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
_label, _subdomain, _dns_1035, _qualified, _value = (
    re.compile(pattern + r"\Z") for pattern in (_LABEL, _SUBDOMAIN, _DNS_1035, _QUALIFIED, _VALUE)
)

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_GENERATED_BASE = 58
MAX_ANNOTATIONS = 256 * 1024

STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
LABEL_NAMED = {("", "namespaces")}
DNS_1035_NAMED = {("", "services")}
PATH_NAMED_GROUPS = {"rbac.authorization.k8s.io"}


def generate_name(base: str) -> str:
    """Return the base plus five random characters without vowels, so that no words appear."""
    return base[:MAX_GENERATED_BASE] + "".join(random.choices(ALPHABET, k=5))  # noqa: S311


def new_uid() -> str:
    """Return a random UUID."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def subdomain_problem(name: str) -> str | None:
    """Return the reason why a name is not a valid DNS subdomain, or None."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if _subdomain.match(name):
        return None
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
        f"regex used for validation is '{_SUBDOMAIN}')"
    )


def label_problem(name: str) -> str | None:
    """Return the reason why a name is not a valid DNS label, or None."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _label.match(name):
        return None
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        f"regex used for validation is '{_LABEL}')"
    )


def _dns_1035_problem(name: str) -> str | None:
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _dns_1035.match(name):
        return None
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        f"'abc-123', regex used for validation is '{_DNS_1035}')"
    )


def _path_problem(name: str) -> str | None:
    if name in {".", ".."}:
        return f"may not be '{name}'"
    for character in "/%":
        if character in name:
            return f"may not contain '{character}'"
    return None


def name_problem(collection: tuple[str, str], name: str) -> str | None:
    """Return the reason why a name is not valid for objects of this kind, or None."""
    if collection in LABEL_NAMED:
        return label_problem(name)
    if collection in DNS_1035_NAMED:
        return _dns_1035_problem(name)
    if collection[0] in PATH_NAMED_GROUPS:
        return _path_problem(name)
    return subdomain_problem(name)


def qualified_name_problem(name: str) -> str | None:
    """Return the reason why a text is not a valid label key or finalizer, or None."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (not prefix or not _subdomain.match(prefix) or len(prefix) > 253):
        return (
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
            "characters, '-' or '.', and must start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    if not rest:
        return "name part must be non-empty"
    if len(rest) > 63:
        return "name part must be no more than 63 characters"
    if not _qualified.match(rest):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            f"'123-abc', regex used for validation is '{_QUALIFIED}')"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """Return the reason why a text is not a valid label value, or None."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    if _value.match(value):
        return None
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        f"'my_value',  or '12345', regex used for validation is '({_QUALIFIED})?')"
    )


def invalid_value(field: str, value: object, problem: str) -> Cause:
    """Return the error for an invalid value, formatted as Kubernetes does."""
    if isinstance(value, bool):
        shown = str(value).lower()
    else:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {problem}")


def required(field: str, text: str = "") -> Cause:
    """Return the error for a missing value."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {text}" if text else ""))


def label_causes(labels: Any, field: str) -> list[Cause]:
    """Return the validation errors of labels."""
    causes = []
    for key, value in (labels or {}).items():
        if problem := qualified_name_problem(key):
            causes.append(invalid_value(field, key, problem))
        if problem := label_value_problem(value):
            causes.append(invalid_value(field, value, problem))
    return causes


def annotation_causes(annotations: Any, field: str) -> list[Cause]:
    """Return the validation errors of annotations."""
    said = annotations or {}
    causes = [
        invalid_value(field, key, problem)
        for key in said
        if (problem := qualified_name_problem(key.lower()))
    ]
    if sum(len(k) + len(v) for k, v in said.items()) > MAX_ANNOTATIONS:
        text = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        causes.append(Cause(field, "FieldValueTooLong", text))
    return causes


def _owner_causes(owners: Iterable[Object]) -> list[Cause]:
    causes, controllers = [], 0
    for index, owner in enumerate(owners):
        at = f"metadata.ownerReferences[{index}]"
        for name, text in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(name):
                causes.append(invalid_value(f"{at}.{name}", "", text))
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = "Only one reference can have Controller set to true"
        causes.append(Cause("metadata.ownerReferences", "FieldValueInvalid", text))
    return causes


def causes_of(meta: Object, collection: tuple[str, str], *, custom: bool = False) -> list[Cause]:
    """Return the validation errors of an object's metadata."""
    causes = []
    name, base = meta.get("name", ""), meta.get("generateName", "")
    if base and (problem := name_problem(collection, base.rstrip("-") or base)):
        causes.append(invalid_value("metadata.generateName", base, problem))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif problem := name_problem(collection, name):
        causes.append(invalid_value("metadata.name", name, problem))
    causes += label_causes(meta.get("labels"), "metadata.labels")
    causes += annotation_causes(meta.get("annotations"), "metadata.annotations")
    causes += _owner_causes(meta.get("ownerReferences") or ())
    return causes + _finalizer_causes(meta.get("finalizers") or (), custom=custom)


def _finalizer_causes(finalizers: Iterable[str], *, custom: bool) -> list[Cause]:
    causes = []
    for finalizer in finalizers:
        if problem := qualified_name_problem(finalizer):
            causes.append(invalid_value("metadata.finalizers", finalizer, problem))
        elif not custom and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value("metadata.finalizers", finalizer, text))
    return causes


_FIXED = ("name", "namespace", "uid")
_KEPT = ("creationTimestamp", "selfLink", "generation")
_KEPT_ONCE_DELETING = ("deletionTimestamp", "deletionGracePeriodSeconds")


def carry_over(new: Object, old: Object) -> None:
    """Restore the fields of new metadata that no writer may change."""
    if not new.get("uid"):
        new["uid"] = old["uid"]
    for name in (*_KEPT, *_KEPT_ONCE_DELETING):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def update_causes(new: Object, old: Object) -> list[Cause]:
    """Return the validation errors of a change of metadata."""
    causes = [
        invalid_value(f"metadata.{name}", new.get(name, ""), "field is immutable")
        for name in _FIXED
        if new.get(name, "") != old.get(name, "")
    ]
    if "deletionTimestamp" in old:
        known = set(old.get("finalizers") or ())
        extra = [name for name in new.get("finalizers") or () if name not in known]
        if extra:
            shown = ", ".join(f'"{name}"' for name in sorted(extra))
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            causes.append(Cause("metadata.finalizers", "FieldValueForbidden", text))
    return causes


def dedupe_owners(meta: Object) -> None:
    """Drop duplicate owner references."""
    owners = meta.get("ownerReferences")
    if owners and len(owners) > 1:
        meta["ownerReferences"] = [o for i, o in enumerate(owners) if o not in owners[:i]]
